"""check.py BUILD [VERSION...]: graphpool check on AMD's own runtimes: each kind of stale address is found, sound programs are silent.

What it says of a defect is the same as on the CPU runtime (tests/command/check_test.py), but for the names of call sites: of a
program that the loader was told to start the library knows no file. A copy of freed memory ends the process here, and is told all
the same. Exit code 77: no such runtime is there.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'support')]
import runs  # noqa: E402
from amd_runtimes import TOP, UNCONTRACTED, roots  # noqa: E402

STALE = 'tests/command/stale'
BOTH = ('allocated by ', 'freed by ')
# The defect, the words for it that graphpool check has, and which call sites it knows.
DEFECTS = [
    (['--defect', 'freed'], 'its memory was freed', BOTH),
    (['--defect', 'freed', '--operation', 'structure'], 'its memory was freed', BOTH),
    (['--defect', 'freed', '--operation', 'copy'], 'its memory was freed', BOTH),
    (['--defect', 'freed-before'], 'its memory was freed', BOTH),
    (['--defect', 'beyond'], 'it lies beyond the end of an allocation', BOTH[:1]),
    (['--defect', 'nowhere'], 'there is no memory', ())]
SOUND = [(STALE, []), (STALE, ['--operation', 'structure']), (STALE, ['--operation', 'copy']), (STALE, ['--operation', 'fill']),
         ('tests/programs/transformer', ['--steps', '4']), ('tests/programs/update', []), ('tests/programs/set_params', [])]
TRIES = 3  # 7.2.4 may crash at its exit, natively, too (README.md)


class Checked:
    def __init__(self, root, program, words):
        command = [TOP / 'scripts/graphpool', 'check', '--', *root.command(root.link(program), words)]
        environment = {**runs.clean_environment(), **UNCONTRACTED, 'GRAPHPOOL_BUILD': str(root.build)}
        environment.pop('LD_LIBRARY_PATH', None)
        for _ in range(TRIES if root.version == '7.2.4' else 1):
            done = subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=runs.TIMEOUT_S)
            if done.returncode >= 0:
                break
        self.code, self.said = done.returncode, done.stderr


def faults(root):
    for words, why, sites in DEFECTS:
        checked = Checked(root, STALE, words)
        found = re.search(r': (\S+) stale address', checked.said)
        missing = [text for text in (why, *sites) if text not in checked.said]
        if checked.code != 1 or found is None or found[1] != '1' or missing:
            yield f'stale {" ".join(words)}: code {checked.code}, without {missing}:\n{checked.said}'
    for program, words in SOUND:
        checked = Checked(root, program, words)
        if checked.code != 0 or ': no stale addresses in ' not in checked.said or ' in 0 of ' in checked.said:
            yield f'{program} {" ".join(words)}: code {checked.code}:\n{checked.said}'


def main(build, *versions):
    found = roots(build, versions)
    if not found:
        print('skipped: scripts/amd has not brought ' + (', '.join(versions) or 'any runtime'))
        return 77
    failed = 0
    for root in found:
        for fault in faults(root):
            failed += 1
            print(f'{root.version}: {fault}', flush=True)
        print(f'{root.version}: {len(DEFECTS)} defects and {len(SOUND)} sound programs tried')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
