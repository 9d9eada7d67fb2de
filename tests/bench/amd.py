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
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# In a pack it lies beside this file.
sys.path[:0] = [str(HERE), str(HERE.parent / 'amd')]
from amd_runtimes import LIBRARIES, LOADER, roots  # noqa: E402

PROGRAMS = {'recapture': 'a step that captures its graph again, moved or not', 'graph_calls': 'each call on graphs, by kernels',
            'calls': 'single calls', 'collectives': 'a captured step with all-reduces, by their number'}
# What a program consists of beyond its own file.
SOURCES = {'collectives': ['clients/peer_collectives.cpp']}
# Of newer versions alone: before HIP 7 a wait for an event that was recorded where a capture has no node yet may be refused, and
# RCCL 2.27 makes such waits.
SINCE = {'collectives': 7}
# What the runtime opens by name.
OPENED = ('libamdhip64.so', 'libhiprtc.so', 'libhiprtc-builtins.so', 'libamd_comgr.so')


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


def commit_of_tree():
    asked = subprocess.run(['git', '-C', HERE, 'describe', '--always', '--dirty=+', '--exclude=*'], capture_output=True,
                           text=True, check=False)
    return asked.stdout.strip()


def processor():
    info = pathlib.Path('/proc/cpuinfo')
    names = [line.partition(':')[2].strip() for line in info.read_text().splitlines() if line.startswith('model name')]
    return names[0] if names else platform.machine()


# --- a pack ---

def needed(library):
    """What a library says that it needs, by name."""
    told = subprocess.run(['readelf', '-d', library], capture_output=True, text=True, check=True).stdout
    return [line.rpartition('[')[2].rstrip(']') for line in told.splitlines() if '(NEEDED)' in line]


def closure(folders, names):
    """The libraries of these names and all that they need, by name."""
    found, wanted = {}, list(names)
    while wanted:
        name = wanted.pop()
        if name not in found and not name.startswith('ld-linux'):
            paths = [folder / name for folder in folders if (folder / name).exists()]
            if not paths:
                sys.exit(f'{name} is in none of {", ".join(str(folder) for folder in folders)}')
            found[name] = paths[0].resolve()
            wanted += needed(paths[0])
    return found


def strip(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o755)
    subprocess.run(['strip', '--strip-unneeded', target], check=True)


def pack(folder, root):
    """One version: loader, C library, runtime, compiler, HSA on the CPU, the library, the programs and what measures them."""
    list(benchmarks([root]))
    if folder.exists() and any(folder.iterdir()) and not (folder / 'benchmarks.json').exists():
        sys.exit(f'{folder} holds something else')
    shutil.rmtree(folder, ignore_errors=True)
    programs = programs_of(root)
    library = root.build / 'hooks/libgraphpool.so'
    of_runtime = root.folder / LIBRARIES
    folders = [root.build / 'tests/runtimes/amd', of_runtime]
    opened = [name for name in OPENED if (of_runtime / name).exists()]
    opened += sorted({path.name for path in of_runtime.glob('libamd_comgr.so.?')})
    names = opened + [name for source in [library, *programs.values()] for name in needed(source)]
    loader = pathlib.Path(LOADER).name
    first = {}
    for name, source in sorted(closure(folders, names).items(), reverse=True):
        if source in first:  # one file, or the loader would load it twice
            (folder / 'lib' / name).symlink_to(first[source])
        else:
            strip(source, folder / 'lib' / first.setdefault(source, name))
    shutil.copy((root.folder / LOADER).resolve(), folder / 'lib' / loader)
    for name, program in programs.items():
        strip(program, folder / 'bin' / name)
    strip(library, folder / library.name)
    for script in (HERE / 'amd.py', HERE.parent / 'amd/amd_runtimes.py', HERE.parent / 'support/ab.py', HERE.parent / 'support/runs.py'):
        shutil.copy(script, folder / script.name)
    listed = list(rows(root.version, [f'@HERE@/lib/{loader}', '--library-path', '@HERE@/lib'], lambda name: f'@HERE@/bin/{name}'))
    (folder / 'benchmarks.json').write_text(json.dumps(
        {'commit': commit_of_tree(), 'library': f'@HERE@/{library.name}', 'benchmarks': listed}, indent=1) + '\n')
    size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file() and not path.is_symlink())
    print(f'{folder}: {size / 2**20:.1f} MiB, commit {commit_of_tree()}')
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
