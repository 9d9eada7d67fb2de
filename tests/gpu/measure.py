"""measure.py LIST [--json FILE] [--quick] [--commit NAME] [NAME...]: all that is measured on a GPU: the programs, native
against library; milliseconds a step, by way; then the benchmarks. NAME: only these of `programs`, `steps` and the benchmarks.
--json writes what a file of tests/bench/results holds, after each part."""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def asked(command):
    """A command's first line, or nothing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ''


def script(name):
    """A script beside this one, or in tests/support."""
    return next(path for path in (HERE / name, HERE.parent / 'support' / name) if path.exists())


def part(name, arguments):
    """Runs one script; what it wrote as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / 'part.json'
        subprocess.run([sys.executable, script(name), *arguments, '--json', written], check=False)
        return written.read_text() if written.exists() else ''


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--commit', default=asked(['git', '-C', HERE, 'rev-parse', '--short', 'HEAD']))
    parser.add_argument('names', nargs='*')
    options = parser.parse_intermixed_args()
    listed = json.loads(pathlib.Path(options.list).read_text())
    known = ['programs', 'steps', *(benchmark['name'] for benchmark in listed['benchmarks'])]
    for name in options.names:
        if name not in known:
            sys.exit(f"no '{name}'; there are: {' '.join(known)}")
    device, _, driver = asked(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader']).partition(', ')
    results = {'device': device, 'driver': driver, 'date': datetime.date.today().isoformat(), 'commit': options.commit}

    def keep(key, value):
        results[key] = value
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + '\n')

    wanted = options.names or known
    if 'programs' in wanted:
        keep('programs', json.loads(part('programs.py', [options.list]) or '[]'))
    if 'steps' in wanted:
        quick = ['--rounds', '1', '--steps', '40', '--tensors', '250'] if options.quick else []
        keep('steps', json.loads(part('steps.py', [options.list, *quick]) or '[]'))
    for name in known[2:]:
        if name in wanted:
            lines = part('ab.py', [options.list, name, *(['--quick'] if options.quick else [])]).splitlines()
            keep('benchmarks', results.get('benchmarks', []) + [json.loads(line) for line in lines])


if __name__ == '__main__':
    main()
