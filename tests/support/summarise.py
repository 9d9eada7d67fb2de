"""summarise.py LOGS: what `meson test` wrote below LOGS (the folder meson-logs of a build directory): the output of what
failed, the reasons of what was skipped, a table of suites, and a last line `N passed, N failed, N skipped`. A failure's
last lines also go to LOGS/failures.txt.

Counted are cases: every GoogleTest case, and every test that is a script or a program as one. Exit code 1 if one failed or
none ran.
"""
import collections
import json
import pathlib
import sys
import xml.etree.ElementTree

OUTPUT_LINES = 200
SHORT_LINES = 25  # of a failure in failures.txt
FAILED = {'FAIL', 'ERROR', 'TIMEOUT', 'INTERRUPT', 'UNEXPECTEDPASS'}


def tests_of(logs):
    """(name, suite, result, output) of each test program that meson ran; the name as in the report of cases."""
    listed = json.loads((logs.parent / 'meson-info/intro-tests.json').read_text())
    suites = {test['name']: test['suite'][0].partition(':')[2] for test in listed if test['suite']}
    for line in (logs / 'testlog.json').read_text().splitlines():
        test = json.loads(line)
        suite = suites.get(test['name'].rpartition(' / ')[2], 'no suite')
        yield test['name'], suite, test['result'], test.get('stdout', '') + test.get('stderr', '')


def cases_of(logs):
    """(name of the program, case name, verdict, text) of each GoogleTest case."""
    junit = logs / 'testlog.junit.xml'
    for suite in xml.etree.ElementTree.parse(junit).getroot().iter('testsuite'):
        program, _, fixture = suite.get('name', '').partition('.')[2].rpartition('.')
        if not program:
            continue  # meson's own suite of programs that are no GoogleTests
        for case in suite.iter('testcase'):
            if case.get('status') == 'notrun':
                continue
            failures = [f.get('message', '') or f.text or '' for f in case.iter('failure')]
            skipped = case.find('skipped')
            verdict = 'failed' if failures else 'skipped' if skipped is not None else 'passed'
            text = '\n'.join(failures) if failures else (skipped.get('message', '') if skipped is not None else '')
            yield program, f'{fixture}.{case.get("name")}', verdict, text


def main():
    logs = pathlib.Path(sys.argv[1])
    if not (logs / 'testlog.json').exists():
        print('no test ran', file=sys.stderr)
        print('0 passed, 0 failed, 0 skipped')
        return 1
    cases = collections.defaultdict(list)
    for test, case, verdict, text in cases_of(logs):
        cases[test].append((case, verdict, text))

    table = collections.defaultdict(collections.Counter)
    skipped, failures = [], []
    for name, suite, result, output in tests_of(logs):
        counts = collections.Counter(verdict for _, verdict, _ in cases[name])
        if result == 'EXPECTEDFAIL':  # it must fail, and counts as one
            counts = collections.Counter(passed=1)
        skipped += [(case, text) for case, verdict, text in cases[name] if verdict == 'skipped']
        if result in FAILED:
            # A program may also fail with all its cases passed: a leak, a crash at exit, no report written at all.
            counts['failed'] += counts['failed'] == 0
            names = [case for case, verdict, _ in cases[name] if verdict == 'failed']
            failures.append((name, result, names, output))
        elif result == 'SKIP':
            counts['skipped'] += not cases[name]
            reason = output.strip().splitlines()[-1:] or ['no reason given']
            if not cases[name]:
                skipped.append((name, reason[0]))
        elif not cases[name]:
            counts['passed'] += 1
        table[suite].update(counts)

    short = []
    for name, result, names, output in failures:
        head = f'--- {name}: {result} {" ".join(names)}'
        lines = output.splitlines()
        short += [head, *lines[-SHORT_LINES:]]
        print(head)
        if len(lines) > OUTPUT_LINES:
            print(f'({len(lines) - OUTPUT_LINES} lines before these)')
        print('\n'.join(lines[-OUTPUT_LINES:]))
    (logs / 'failures.txt').write_text(''.join(line + '\n' for line in short))
    # A test program that runs once for each of many settings skips the same cases for the same reason again and again.
    for (name, reason), times in sorted(collections.Counter(skipped).items()):
        print(f'skipped {name}{f" ({times} times)" if times > 1 else ""}: {" ".join(reason.split())}')
    for suite, counts in sorted(table.items()):
        print(f'{suite:<14} {counts["passed"]:6} passed {counts["failed"]:4} failed {counts["skipped"]:4} skipped')
    total = sum(table.values(), collections.Counter())
    print(f'{total["passed"]} passed, {total["failed"]} failed, {total["skipped"]} skipped')
    return 1 if total['failed'] or not total else 0


if __name__ == '__main__':
    sys.exit(main())
