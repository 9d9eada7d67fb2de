"""errors.py HSA LIBRARY: what a kernel that a device cannot go on with is to a program, on AMD's own runtimes.

errors.cpp is compiled against each runtime that scripts/amd has brought, and run on HSA, the build's libhsa-runtime64.so.1,
natively and under LIBRARY: the same end, and the same answers of all calls behind the error, which are those of ANSWERS. Ends with
77 where no runtime is there.
"""
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[3]
sys.path.insert(0, str(TOP / 'tests/support'))
import runs  # noqa: E402

# A kernel writes where nothing is, or ends in a trap; launched, and by a graph: {the runtime's major version: error, or None}.
# Before 7 the runtime has not asked to be told of faults, and ends the process itself where a queue reports an error.
ANSWERS = {'fault': {5: None, 6: None, 7: '700 hipErrorIllegalAddress'}, 'trap': {5: None, 6: None, 7: '719 hipErrorLaunchFailure'}}
BEHIND = ['wait', 'last error', 'allocate', 'copy', 'device']


def compiled(root, folder):
    program = folder / f'errors_{root.name}'
    libraries = [path for name in ('amdhip64', 'hiprtc') for path in (root / 'usr/lib/x86_64-linux-gnu').glob(f'lib{name}.so')]
    subprocess.run(['g++', '-std=c++20', '-O1', '-D__HIP_PLATFORM_AMD__', '-Wno-ignored-attributes', '-o', program, HERE / 'errors.cpp', *libraries,
                    '-Wl,--allow-shlib-undefined', '-Wl,--unresolved-symbols=ignore-in-shared-libs'], check=True)
    return program


def check(root, program, name, hsa, library):
    """What is wrong."""
    command = [root / 'usr/lib64/ld-linux-x86-64.so.2', '--library-path',
               f'{pathlib.Path(hsa).resolve().parent}:{root / "usr/lib/x86_64-linux-gnu"}', program, name]
    answer = ANSWERS[name.split('_')[-1]][int(root.name.split('.')[0])]
    for preload in ([], [library]):
        done = runs.run(command, preload=preload, journal=False)
        lines = [line.strip() for line in done.stdout.decode().splitlines()]  # the runtime prints between them
        if answer is None:
            right = done.code == -signal.SIGABRT and not any(line.startswith('wait') for line in lines)
        else:
            right = done.code == 0 and lines[-len(BEHIND):] == [f'{call}: {answer}' for call in BEHIND]
        if not right:
            yield (f'{root.name} {name} {"under the library" if preload else "natively"}: ended with {done.code}, wanted {answer}\n'
                   f'{done.stdout.decode()}{done.stderr}')


def main(hsa, library):
    roots = sorted(path.parent for path in (TOP / 'build-amd').glob('*/complete'))
    if not roots or shutil.which('g++') is None:
        print("no runtime of AMD's is there: scripts/amd brings them")
        return 77
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for root in roots:
            program = compiled(root, pathlib.Path(folder))
            for name in [way + what for way in ('', 'graph_') for what in ANSWERS]:
                failures += check(root, program, name, hsa, library)
    print(*failures, f'{len(failures)} failures on {", ".join(root.name for root in roots)}', sep='\n')
    return 1 if failures else 0


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
