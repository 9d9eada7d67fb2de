"""preload_tests.py BUILD [--names PATTERN] [--tests PATTERN] [--sample] [--seconds S] [--json FILE] [VERSION...]: the tests of
tests/preload on AMD's own runtimes, over HSA on the CPU.

Of the suite `preload` of BUILD these are run: programs of GoogleTest, with environments that ask for no switch of the CPU
runtime but the number of devices and their memory, which HSA has as well. A program is linked against each of the versions
(or those named) that scripts/amd has brought, and what reaches the runtime is noted by call_journal.cpp. A test that asks the
CPU runtime for more than that ends its process; it is counted, and the others go on in a process of their own. A test
that fails is run again, alone, and natively.

What then fails under the library only DIFFERS, but for what preload.toml expects; what fails natively, too, says nothing of the
library: AMD. SKIPPED and NEEDS: the test itself, or what it needs, is not for this runtime.

Prints what does not hold and a summary. --names, --tests: patterns for tests of the build, and for those inside. --sample: those
of preload.toml. --seconds: what one of those inside may take, 60 by itself. Exit code 1: something differs, 77: no such runtime is there.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'support'), str(HERE.parent / 'runtimes/common')]
import runs  # noqa: E402
from amd_runtimes import UNCONTRACTED, roots  # noqa: E402
from generate_abi import read_rows  # noqa: E402
from hook_rows import row_files  # noqa: E402

ROWS = HERE.parents[1] / 'shim/hip/hip_hooks.def'
# Switches of the CPU runtime that HSA on the CPU has as well, or that choose the version, which the runtime at hand has.
SAME_SWITCH = {'CPUHIP_DEVICES': 'HSACPU_DEVICES', 'CPUHIP_MEMORY': 'HSACPU_MEMORY'}
LEFT_OUT = {'CPUHIP_VERSION', 'CPUHIP_JOURNAL'}
TEST_S = 60  # a test that takes longer has hung, unless --seconds says otherwise
STAND_IN = '[librccl.so.1]'
FINE = ('OK', 'SKIPPED', 'NEEDS')
LINES = 12  # of what a failing test says


@dataclasses.dataclass(frozen=True)
class Listed:
    """One test of the build's list: a program and an environment."""
    name: str
    program: str       # path in the build folder
    environment: tuple  # of (key, value)
    filter: str
    preload: tuple     # what comes before the call journal

    @property
    def under_library(self):
        return any('libgraphpool' in path for path in self.preload)


def listed_tests(build):
    """(tests that can be run, {reason why not: number})."""
    tests, others = {}, collections.Counter()
    for entry in json.loads((build / 'meson-info/intro-tests.json').read_text()):
        if not any(suite.endswith(':preload') for suite in entry['suite']):
            continue
        environment = dict(entry['env'])
        environment.pop('LD_LIBRARY_PATH', None)
        switches = sorted(key for key in environment if key.startswith('CPUHIP_') and key not in {*SAME_SWITCH, *LEFT_OUT})
        if entry['protocol'] == 'gtest' and STAND_IN in entries_of(entry['cmd'][0]):
            others['needs our stand-in for RCCL'] += 1
        elif entry['protocol'] != 'gtest':
            others['is a script that starts programs on the CPU runtime'] += 1
        elif switches:
            others['asks for ' + ', '.join(switches)] += 1
        else:
            preload = tuple(path for path in environment.pop('LD_PRELOAD', '').split(':') if path)
            chosen = environment.pop('GTEST_FILTER', '*')
            kept = tuple(sorted((SAME_SWITCH.get(key, key), value) for key, value in environment.items() if key not in LEFT_OUT
                                and key != 'GRAPHPOOL_LOG_FILE'))
            test = Listed(entry['name'], str(pathlib.Path(entry['cmd'][0]).relative_to(build)), kept, chosen, preload)
            same = dataclasses.replace(test, name='')
            if same in tests:
                others['differs from another in the runtime\'s version only'] += 1
            else:
                tests[same] = test
    return list(tests.values()), others


def entries_of(program):
    """The dynamic section of a program; nothing of one that is not built."""
    return subprocess.run(['readelf', '-d', program], capture_output=True, text=True, check=False).stdout


def equipment(root):
    """(the library that notes what reaches this runtime, an object with what the runtime does not have)."""
    folder = root.build / 'tests/amd' / root.version
    targets = folder / 'libcall_journal.so', folder / 'missing_calls.o'
    sources = [HERE / name for name in ('call_journal.cpp', 'call_entries.S', 'missing_calls.cpp')]
    newest = max(file.stat().st_mtime for file in [*sources, *row_files(ROWS)])
    if all(target.exists() and target.stat().st_mtime > newest for target in targets):
        return targets
    folder.mkdir(parents=True, exist_ok=True)
    shown = subprocess.run(['nm', '-D', '--defined-only', *root.libraries('amdhip64', 'hiprtc')], capture_output=True, text=True,
                           check=True)
    there = {line.split()[-1].split('@')[0] for line in shown.stdout.splitlines() if line.strip()}
    rows = list(read_rows(ROWS))
    with tempfile.TemporaryDirectory(dir=folder) as made:
        made = pathlib.Path(made)
        (made / 'call_names.inc').write_text(''.join(
            f'CALL({name}, {int(kind == "hip")})\n' for name, _, kind in rows
            if name in there and name != 'hipMalloc' and not name.startswith('hiprtc')))
        (made / 'missing_names.inc').write_text(''.join(f'CALL({name})\n' for name, _, _ in rows if name not in there))
        compiler = ['g++', '-fPIC', '-O2', '-std=c++20', '-Wall', '-Wextra', '-fvisibility=hidden', '-I', made]
        subprocess.run([*compiler, '-shared', f'-Wl,-soname,{targets[0].name}', *sources[:2], '-o', made / 'library', '-ldl'], check=True)
        subprocess.run([*compiler, '-c', sources[2], '-o', made / 'object'], check=True)
        (made / 'library').replace(targets[0])
        (made / 'object').replace(targets[1])
    return targets


def linked(root, program):
    journal, missing = equipment(root)
    return root.link(program, [missing, '-lgtest_main', '-lgtest', journal])


class Runner:
    """One of the build's tests on one runtime."""

    def __init__(self, root, test, wanted, expected, seconds):
        self.root, self.test, self.wanted, self.seconds = root, test, wanted, seconds
        self.expected = {name for entry in expected if root.version in entry['versions'] for name in entry['tests']}

    def names(self):
        """Of the tests that its filter chooses."""
        shown = subprocess.run([self.root.build / self.test.program, '--gtest_list_tests', f'--gtest_filter={self.test.filter}'],
                               capture_output=True, text=True, check=True, env=runs.clean_environment())
        found, suite = [], ''
        for line in shown.stdout.splitlines():
            word = line.split('#')[0]
            if word.startswith('  '):
                found.append(suite + word.strip())
            elif word.rstrip().endswith('.'):
                suite = word.strip()
        return found

    def start(self, names, journal, preload):
        environment = {**runs.clean_environment(), **UNCONTRACTED, 'GRAPHPOOL_GRAPH_WEIGH': 'false',
                       **dict(self.test.environment), 'CPUHIP_JOURNAL': str(journal),
                       'GRAPHPOOL_LOG_FILE': str(journal.with_name('log')), 'LD_PRELOAD': ':'.join(map(str, preload))}
        return subprocess.Popen(self.root.command(linked(self.root, self.test.program), [f'--gtest_filter={":".join(names)}']),
                                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors='replace')

    def run(self, names, preload):
        """Runs tests in one process until it ends. Returns {name: (verdict, lines)}; the rest was not reached."""
        results, running, said = {}, None, []
        with tempfile.TemporaryDirectory(prefix='amd-') as folder:
            process = self.start(names, pathlib.Path(folder) / 'journal', preload)
            late = []

            def stop():
                late.append(True)
                process.kill()

            timer = threading.Timer(self.seconds, stop)
            timer.start()
            for line in process.stdout:
                if match := re.match(r'\[ RUN      \] (\S+)', line):
                    running, said = match[1], []
                    timer.cancel()
                    timer = threading.Timer(self.seconds, stop)
                    timer.start()
                elif running and (match := re.match(r'(.*)\[(       OK|  FAILED |  SKIPPED) \] ' + re.escape(running) + r'\b', line)):
                    results[running] = (match[2].strip(), said)
                    running = None
                else:
                    said.append(line.rstrip())
            code = process.wait()
            timer.cancel()
        if running is not None:
            needs = next((line for line in said if line.startswith('needs ')), None)
            verdict = 'NEEDS' if code == 77 and needs else 'HANGS' if late else f'ENDS {code}'
            results[running] = (verdict, said)
        elif not results:
            results[names[0]] = (f'ENDS {code}', said)
        return results

    def all_of(self, names, preload):
        results, left = {}, list(names)
        while left:
            results |= self.run(left, preload)
            left = [name for name in left if name not in results]
        return results

    def outcome(self):
        """{name: (verdict, what it says)}; a test that fails is run again alone, and natively. One that passes alone must
        fail natively behind the same tests, too."""
        names = [name for name in self.names() if re.search(self.wanted, name)]
        preload = [*self.test.preload, equipment(self.root)[0]]
        results = self.all_of(names, preload) if names else {}
        native = [path for path in preload if 'libgraphpool' not in str(path)]
        for name, (verdict, said) in list(results.items()):
            if verdict in FINE:
                continue
            alone, said_alone = self.run([name], preload)[name]
            if not self.test.under_library:
                results[name] = alone if alone in FINE else f'AMD: {alone}', said_alone
                continue
            if alone in FINE:
                verdict += ' behind others'
                natively, _ = self.all_of(names[:names.index(name) + 1], native)[name]
            else:
                verdict, said = alone, said_alone
                natively, _ = self.run([name], native)[name]
            kind = 'AMD' if natively not in FINE else 'EXPECTED' if name in self.expected else 'DIFFERS'
            results[name] = f'{kind}: {verdict}, natively {natively}', said
        return results


def shown(counts):
    return ', '.join(f'{count} {verdict}' for verdict, count in counts.most_common())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--names', default='.*')
    parser.add_argument('--tests', default='')
    parser.add_argument('--sample', action='store_true')
    parser.add_argument('--seconds', type=float, default=TEST_S)
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('versions', nargs='*')
    options = parser.parse_intermixed_args()
    build = options.build.resolve()
    found = roots(build, options.versions)
    if not found:
        print('skipped: scripts/amd has not brought ' + (', '.join(options.versions) or 'any runtime'))
        return 77
    tests, others = listed_tests(build)
    settings = tomllib.loads((HERE / 'preload.toml').read_text())
    wanted = settings['sample'] if options.sample else {test.name: options.tests for test in tests
                                                        if re.fullmatch(options.names, test.name)}
    tests = [test for test in tests if test.name in wanted]
    table, totals = {}, collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for root in found:
            equipment(root)
            for program in {test.program for test in tests}:
                linked(root, program)
        work = [(root, test, pool.submit(Runner(root, test, wanted[test.name], settings['expected'], options.seconds).outcome))
                for root in found for test in tests]
        for root, test, done in work:
            results = done.result()
            counts = collections.Counter(verdict.partition(':')[0] for verdict, _ in results.values())
            totals[root.version, 'library' if test.under_library else 'native'].update(counts)
            table.setdefault(root.version, {})[test.name] = {name: list(result) for name, result in results.items()}
            print(f'{root.version} {test.name:<36} ' + shown(counts), flush=True)
            for name, (verdict, said) in results.items():
                if verdict not in FINE:
                    print(f'    {name}: {verdict}', flush=True)
                if verdict.startswith('DIFFERS'):
                    print(*(f'        {line}' for line in said[:LINES]), sep='\n', flush=True)
    for (version, way), counts in totals.items():
        print(f'{version} {way}: {shown(counts)}')
    for reason, number in others.most_common():
        print(f'not run: {number} that {reason}' if number != 1 else f'not run: 1 that {reason}')
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table, indent=1) + '\n')
    return 1 if any(counts['DIFFERS'] for counts in totals.values()) else 0


if __name__ == '__main__':
    sys.exit(main())
