"""one_test.py BUILD NAME: builds and runs what NAME means, in the environment that Meson's tests have.

NAME is a test of Meson's (`memory_rules_library`, `preload/switched_off`), a GoogleTest case (`rule_16_NothingIsWaitedFor`,
`IdleTest.rule_16_NothingIsWaitedFor`), or a pattern (`'*rule_16*'`), which finds both. A GoogleTest case is run in every test of
Meson's that has it. The last line counts runs of Meson's tests; exit code 1 if one failed, 2 if there is no such test.
"""
import difflib
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

CASE = re.compile(r'\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)')


def matches(name, pattern):
    return fnmatch.fnmatchcase(name, pattern)


def suite_of(test):
    return test['suite'][0].partition(':')[2] if test['suite'] else ''


def is_case(fixture, case, pattern):
    """Value-parameterized tests are listed as `All/Fixture` and `case/0`."""
    fixture, case = fixture.rpartition('/')[2], case.partition('/')[0]
    return matches(case, pattern) or matches(f'{fixture}.{case}', pattern)


def cases_in(program, env, pattern):
    """The full names of the program's cases that the pattern means, among those that its own filter leaves."""
    listed = subprocess.run([*program, '--gtest_list_tests'], env=env, capture_output=True, text=True, check=True).stdout
    fixture = ''
    for line in listed.splitlines():
        word = line.partition('#')[0].strip()
        if not line.startswith(' '):
            fixture = word.rstrip('.')
        elif is_case(fixture, word, pattern):
            yield f'{fixture}.{word}'


def programs_with(targets, pattern):
    """The files of the programs whose sources have a case that the pattern means, and the names of all cases."""
    programs, known = set(), set()
    for target in targets:
        sources = [file for group in target['target_sources'] for file in group.get('sources', ()) if file.endswith('.cpp')]
        cases = [case for file in sources if '/tests/' in file for case in CASE.findall(pathlib.Path(file).read_text())]
        known.update(case for _, case in cases)
        if any(is_case(*case, pattern) for case in cases):
            programs.update(target['filename'])
    return programs, known


def files_of(tests, targets, folder):
    """What the tests need built, by paths below the folder."""
    files = {target['id']: target['filename'] for target in targets}
    return {os.path.relpath(file, folder) for test in tests for id in test['depends'] for file in files.get(id, ())}


def build(folder, tests, targets):
    wanted = files_of(tests, targets, folder)
    if wanted:
        done = subprocess.run(['ninja', '-C', folder, *sorted(wanted)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)


def main(folder, name):
    folder = str(pathlib.Path(folder).resolve())
    info = pathlib.Path(folder) / 'meson-info'
    tests = json.loads((info / 'intro-tests.json').read_text())
    targets = json.loads((info / 'intro-targets.json').read_text())
    whole = [test for test in tests if matches(test['name'], name) or matches(f'{suite_of(test)}/{test["name"]}', name)]
    programs, known = programs_with(targets, name)
    having = [test for test in tests if test['cmd'][0] in programs and test not in whole]
    build(folder, whole + having, targets)
    runs = [(test, None) for test in whole]
    for test in having:
        cases = list(cases_in(test['cmd'], os.environ | test['env'], name))
        if cases:
            runs.append((test, cases))
    if not runs:
        near = difflib.get_close_matches(name, [*known, *(test['name'] for test in tests)], n=3)
        print(f'there is no test {name}' + (f'; did you mean {", ".join(near)}?' if near else ''), file=sys.stderr)
        return 2

    failed = 0
    for test, cases in runs:
        command = ['meson', 'test', '-C', folder, '--no-rebuild', '-v', '--suite', suite_of(test), test['name']]
        command += [f'--test-args=--gtest_filter={":".join(cases)}'] if cases else []
        failed += subprocess.run(command, stdin=subprocess.DEVNULL).returncode != 0
    print(f'{len(runs) - failed} passed, {failed} failed')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
