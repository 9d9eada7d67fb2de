"""errors.py BUILD: what a kernel that a device cannot go on with is to a program, on AMD's own runtimes.

errors.cpp is compiled against each runtime that scripts/amd has brought, and run on HSA on the CPU of the build folder BUILD,
natively and under its library: the same end, and the same answers of all calls behind the error, which are those of ANSWERS. Ends
with 77 where no runtime is there.
"""
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / 'support'), str(HERE.parents[2] / 'amd')]
import runs  # noqa: E402
from amd_runtimes import roots_to_compile_for  # noqa: E402

# A kernel writes where nothing is, or ends in a trap; launched, and by a graph: {the runtime's major version: error, or None}.
# Before 7 the runtime has not asked to be told of faults, and ends the process itself where a queue reports an error.
ANSWERS = {'fault': {5: None, 6: None, 7: '700 hipErrorIllegalAddress'}, 'trap': {5: None, 6: None, 7: '719 hipErrorLaunchFailure'}}
BEHIND = ['wait', 'last error', 'allocate', 'copy', 'device']


def check(root, program, name):
    """What is wrong."""
    answer = ANSWERS[name.split('_')[-1]][int(root.version.split('.')[0])]
    for preload in ([], [root.build / 'hooks/libgraphpool.so']):
        done = runs.run(root.command(program, [name]), preload=preload, journal=False)
        lines = [line.strip() for line in done.stdout.decode().splitlines()]  # the runtime prints between them
        if answer is None:
            right = done.code == -signal.SIGABRT and not any(line.startswith('wait') for line in lines)
        else:
            right = done.code == 0 and lines[-len(BEHIND):] == [f'{call}: {answer}' for call in BEHIND]
        if not right:
            yield (f'{root.version} {name} {"under the library" if preload else "natively"}: ended with {done.code}, wanted {answer}\n'
                   f'{done.stdout.decode()}{done.stderr}')


def main(build):
    there = roots_to_compile_for(build)
    if not there:
        return 77
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for root in there:
            program = root.compile(HERE / 'errors.cpp', pathlib.Path(folder) / f'errors_{root.version}')
            for name in [way + what for way in ('', 'graph_') for what in ANSWERS]:
                failures += check(root, program, name)
    print(*failures, f'{len(failures)} failures on {", ".join(root.version for root in there)}', sep='\n')
    return 1 if failures else 0


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
