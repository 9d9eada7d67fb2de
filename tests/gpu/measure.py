"""measure.py LIST [--json FILE] [--quick] [--commit NAME] [NAME...]: all that is run on a GPU: the tests of the runtime; the
probes, whose answers tests/probes/matrix.py takes over; the programs, native against library; milliseconds a step, by way; then
the benchmarks. NAME: only these of `tests`, `probes`, `programs`, `steps` and the benchmarks. --json writes what a file of tests/bench/results holds, after each part. --commit: what was
built; else what the list says, which pack.py has noted, or the tree's. Ends with 1 if a test failed, a program did not
print the same bytes, or a part could not be run to its end."""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parent / 'support'  # in a pack all lies beside this script
sys.path += [str(SUPPORT), str(HERE.parent / 'probes')]
import answers  # noqa: E402
import runs  # noqa: E402


def asked(command):
    """A command's first line, or nothing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ''


def machine():
    """The device's name and the driver's version."""
    device, _, driver = asked(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader']).partition(', ')
    version = pathlib.Path('/proc/driver/nvidia/version')
    if not driver and version.exists():
        found = re.search(r'\d+\.\d+(\.\d+)?', version.read_text())
        driver = found.group(0) if found else ''
    return {'device': device, 'driver': driver}


def script(name):
    """A script beside this one, or in tests/support."""
    return next(path for path in (HERE / name, SUPPORT / name) if path.exists())


def part(name, arguments):
    """Runs one script; its exit code and what it wrote as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / 'part.json'
        done = subprocess.run([sys.executable, script(name), *arguments, '--json', written], check=False,
                              env={**os.environ, 'PYTHONPATH': str(SUPPORT)})
        return done.returncode, written.read_text() if written.exists() else ''


def run_tests(listed):
    """Each program of tests, natively; its code, and what it said if that is not 0."""
    for test in listed['tests']:
        done = runs.run(test['command'], runtime=test['runtime'], journal=False)
        summary = [line for line in done.stdout.decode(errors='replace').splitlines() if 'test' in line][-1:]
        print(f'{test["name"]:<24} code {done.code}  {" ".join(summary)}', flush=True)
        if done.code != 0:
            print(done.stdout.decode(errors='replace'), done.stderr, sep='\n', flush=True)
        yield {'name': test['name'], 'code': done.code}


def ask_probes(listed):
    """The answers of each runtime, by the column of the matrix that they are; what may harm the device is not asked."""
    for asked_of in listed.get('probes', []):
        environment = {'LD_LIBRARY_PATH': f'{asked_of["runtime"]}:{os.environ.get("LD_LIBRARY_PATH", "")}'}
        try:
            found, version, device = answers.ask(asked_of['command'][0], environment=environment)
        except (OSError, ValueError, subprocess.CalledProcessError) as why:
            print(f'probes: {why}', flush=True)
            yield {'column': '', 'answers': {}}
            continue
        column = f'cuda {answers.short(version)}'
        counts = collections.Counter(answer.answer for answer in found.values())
        print(f'{column:<24} {", ".join(f"{count} {answer}" for answer, count in sorted(counts.items()))}', flush=True)
        yield {'column': column, 'version': version, 'device': device,
               'answers': {name: [answer.answer, answer.value] for name, answer in found.items()}}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--commit')
    parser.add_argument('names', nargs='*')
    options = parser.parse_intermixed_args()
    listed = runs.read_list(options.list)
    known = ['tests', 'probes', 'programs', 'steps', *(benchmark['name'] for benchmark in listed['benchmarks'])]
    for name in options.names:
        if name not in known:
            sys.exit(f"no '{name}'; there are: {' '.join(known)}")
    commit = options.commit or listed.get('commit') or asked(['git', '-C', HERE, 'rev-parse', '--short', 'HEAD'])
    results = {**machine(), 'date': datetime.date.today().isoformat(), 'commit': commit}
    print(', '.join(f'{key} {value or "unknown"}' for key, value in results.items()), flush=True)
    failed = []

    def keep(key, value):
        results[key] = value
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + '\n')

    def measured(name, arguments):
        code, text = part(f'{name}.py', [options.list, *arguments])
        if code != 0:
            failed.append(' '.join([name, *arguments[:1]]))
        return text

    wanted = options.names or known
    if 'tests' in wanted:
        keep('tests', list(run_tests(listed)))
        failed += [test['name'] for test in results['tests'] if test['code'] != 0]
    if 'probes' in wanted:
        keep('probes', list(ask_probes(listed)))
        failed += ['probes' for asked_of in results['probes'] if not asked_of['answers']]
    if 'programs' in wanted:
        keep('programs', json.loads(measured('programs', []) or '[]'))
    if 'steps' in wanted:
        quick = ['--rounds', '1', '--steps', '40', '--tensors', '250'] if options.quick else []
        keep('steps', json.loads(measured('steps', quick) or '[]'))
    for name in known[4:]:
        if name in wanted:
            lines = measured('ab', [name, *(['--quick'] if options.quick else [])]).splitlines()
            keep('benchmarks', results.get('benchmarks', []) + [json.loads(line) for line in lines])
    if failed:
        print(f'not as it should be: {", ".join(failed)}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
