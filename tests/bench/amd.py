"""amd.py BUILD [OPTION...] [NAME...]: what graphs and memory cost the host on AMD's own runtimes, natively against the library.
amd.py BUILD --pack FOLDER VERSION

The benchmarks of PROGRAMS are compiled against each runtime that scripts/amd has brought, and run on HSA on the CPU of the build
folder BUILD, where kernels complete at once: what is measured is AMD's own host code. A benchmark's name ends in the version.
Options as ab.py's, which measures; --json writes what a file of tests/bench/results holds, a version's benchmarks or all.

--pack copies what one version needs into FOLDER, libraries stripped, for a machine of the same kind without a build or a
network; it brings its own C library. There, Python 3.11 is enough:

    python3 FOLDER/amd.py --packed --json results.json [OPTION...] [NAME...]
"""
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# In a pack it lies beside this file.
sys.path[:0] = [str(HERE), str(HERE.parent / 'amd')]
from amd_runtimes import roots  # noqa: E402
from pack import Pack, commit_of_tree  # noqa: E402

PROGRAMS = {'recapture': 'a step that captures its graph again, moved or not', 'graph_calls': 'each call on graphs, by kernels',
            'calls': 'single calls', 'collectives': 'a captured step with all-reduces, by their number'}
# What a program consists of beyond its own file.
SOURCES = {'collectives': ['clients/peer_collectives.cpp']}
# Of newer versions alone: before HIP 7 a wait for an event that was recorded where a capture has no node yet may be refused, and
# RCCL 2.27 makes such waits.
SINCE = {'collectives': 7}


def programs_on(version):
    return [name for name in PROGRAMS if int(version.split('.')[0]) >= SINCE.get(name, 0)]


def rows(version, launcher, program):
    """The benchmarks of one version; program: the path of each by name."""
    for name in programs_on(version):
        yield {'name': f'{name}_{version}', 'kind': 'pair', 'about': f"{PROGRAMS[name]}, on AMD's {version}", 'runs': 5, 'quick_runs': 2,
               'environment': {'HSACPU_KERNELS': '0'},  # what the host costs: kernels do nothing
               'command': [*launcher, str(program(name))]}


def programs_of(root):
    return {name: root.build / 'tests/bench/amd' / root.version / name for name in programs_on(root.version)}


def benchmarks(measured):
    for root in measured:
        for name, program in programs_of(root).items():
            more = [HERE.parent / source for source in SOURCES.get(name, [])]
            root.compile(HERE / f'{name}.cpp', program, ['-O2', f'-I{HERE.parent / "programs"}', *more])
        yield from rows(root.version, root.launcher(), programs_of(root).get)


def processor():
    info = pathlib.Path('/proc/cpuinfo')
    names = [line.partition(':')[2].strip() for line in info.read_text().splitlines() if line.startswith('model name')]
    return names[0] if names else platform.machine()


def pack(folder, root):
    """One version, with the benchmarks and what measures them."""
    list(benchmarks([root]))
    programs = programs_of(root)
    packed = Pack(folder, root, 'benchmarks.json')
    packed.copy_libraries(programs)
    packed.copy_scripts({'.': [HERE / 'amd.py', HERE.parent / 'amd/amd_runtimes.py', HERE.parent / 'amd/pack.py', HERE.parent / 'support/ab.py',
                               HERE.parent / 'support/runs.py']})
    packed.finish({'library': packed.library, 'benchmarks': list(rows(root.version, packed.launcher, packed.program))})
    return 0


# --- measuring ---

def measure(listed, commit, options):
    """ab.py's figures, with what they were measured on where --json asks for them."""
    ab = next(path for path in (HERE / 'ab.py', HERE.parent / 'support/ab.py') if path.exists())
    written = pathlib.Path(options[options.index('--json') + 1]) if '--json' in options else None
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder, 'lines')
        if written:
            at = options.index('--json')
            options = [*options[:at], *options[at + 2:], '--json', str(lines)]
        code = subprocess.run([sys.executable, ab, listed, *options], check=False).returncode
        if written and lines.exists():
            written.write_text(json.dumps(
                {'device': processor(), 'cores': os.cpu_count(), 'date': datetime.date.today().isoformat(), 'commit': commit,
                 'benchmarks': [json.loads(line) for line in lines.read_text().splitlines()]}, indent=1) + '\n')
    return code


def main(build, *options):
    if build == '--packed':
        return measure(HERE / 'benchmarks.json', json.loads((HERE / 'benchmarks.json').read_text())['commit'], list(options))
    build = pathlib.Path(build).resolve()
    there = {root.version: root for root in roots(build)}
    if options[:1] == ('--pack',):
        if len(options) != 3 or options[2] not in there:
            sys.exit(f'--pack FOLDER VERSION; there are: {" ".join(there)}')
        return pack(pathlib.Path(options[1]), there[options[2]])
    if not there:
        sys.exit('no runtime of AMD\'s is there: scripts/amd brings them')
    listed = build / 'tests/bench/amd/benchmarks.json'
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text(json.dumps({'library': str(build / 'hooks/libgraphpool.so'), 'benchmarks': list(benchmarks(there.values()))}))
    return measure(listed, commit_of_tree(), list(options))


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
