"""programs.py BUILD [--policies NAME,...] [--json FILE] [--repeat N] [VERSION...]: the test programs on AMD's own runtimes.

Each program of BUILD/tests/amd/programs.json runs natively and under the library with each policy, on every version (or those
named) that scripts/amd has brought, over HSA on the CPU: the same bytes, the same end. Prints a row a program, and ends with a
summary. What AMD's runtime does wrong natively is in defects.toml: such a program is told apart, with its reason. Exit code 77:
no such runtime is there.
"""
import argparse
import collections
import concurrent.futures
import difflib
import json
import os
import pathlib
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / 'support')]
import runs  # noqa: E402
from amd_runtimes import UNCONTRACTED, roots  # noqa: E402

LINES = 6  # of a difference


def policies(listed, wanted):
    """{name: environment}; the list is `--policy`, name, KEY=VALUE..."""
    found, name = {}, None
    for word in listed:
        if word == '--policy':
            name = None
        elif name is None:
            name = word
            found[name] = {'GRAPHPOOL_GRAPH_WEIGH': 'false'}
        else:
            found[name].update([word.split('=', 1)])
    return {name: found[name] for name in wanted.split(',')} if wanted else found


def difference(native, pooled):
    if native.code != pooled.code:
        yield f'natively code {native.code}, under the library {pooled.code}'
        yield from pooled.stderr.splitlines()[-LINES:]
    yield from list(difflib.unified_diff(native.stdout.decode(errors='replace').splitlines(),
                                         pooled.stdout.decode(errors='replace').splitlines(), 'native', 'library', lineterm='',
                                         n=0))[:LINES]


def served_of(done):
    """How many captures the library served, and of how many."""
    graphs = done.report['graphs']
    return f'{graphs["captures_avoided"]} of {sum(graphs["captures_" + what] for what in ("avoided", "recorded", "refused"))}'


# Natively, too (README.md): what such a program has printed may be lost. One that crashes each time is found all the same.
CRASHES_AT_EXIT, CRASHED, TRIES = ('7.2.4',), -11, 3


class Program:
    def __init__(self, root, row, listed, environments, defects):
        self.row, self.library, self.environments = row, listed['library'], environments
        self.own = {**UNCONTRACTED, **row.get('environment', {})}
        self.version = root.version
        self.command = root.command(root.link(row['program']), row['arguments'])
        self.defects = [entry for entry in defects if root.version in entry['versions'] and row['name'] in entry['names']]

    def run(self, environment=None):
        preload = [] if environment is None else [self.library]
        for _ in range(TRIES):
            done = runs.run(self.command, preload=preload, environment={**self.own, **(environment or {})}, journal=False,
                            report=environment is not None)
            if self.version not in CRASHES_AT_EXIT or done.code != CRASHED:
                break
        return done

    def compare(self):
        """(verdict, {policy: verdict}, lines that explain)."""
        native = self.run()
        for entry in self.defects:
            if native.code == entry.get('ends'):
                return 'AMD', {}, [f'AMD\'s own: {entry["reason"]}']
        if native.code != 0 or not native.stdout:
            return 'ENDS', {}, [f'native code {native.code}', *native.stderr.splitlines()[-LINES:]]
        verdicts, notes = {}, []
        for name, environment in self.environments.items():
            pooled = self.run(environment)
            same = (pooled.code, pooled.stdout) == (native.code, native.stdout)
            verdicts[name] = 'same' if same else 'DIFFERS'
            notes += [f'{name}: {line}' for line in (() if same else difference(native, pooled))]
            if same and name == 'default' and (served := served_of(pooled)) != self.row.get('served', served):
                verdicts[name] = 'DIFFERS'
                notes += [f'{name}: {served} captures served, not {self.row["served"]}']
        if all(verdict == 'same' for verdict in verdicts.values()):
            return 'same', verdicts, []
        for entry in self.defects:
            if entry.get('sometimes') and self.goes_wrong(native):
                return 'AMD', verdicts, [f'AMD\'s own: {entry["reason"]}', *notes]
        return 'DIFFERS', verdicts, notes

    def goes_wrong(self, native):
        """Whether the program does so natively, too."""
        return any((again.code, again.stdout) != (native.code, native.stdout) for again in (self.run() for _ in range(30)))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('build')
    parser.add_argument('--policies', default='')
    parser.add_argument('--names', default='', help='of programs')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--repeat', type=int, default=1)
    parser.add_argument('versions', nargs='*')
    options = parser.parse_intermixed_args()
    found = roots(options.build, options.versions)
    if not found:
        print('skipped: scripts/amd has not brought ' + (', '.join(options.versions) or 'any runtime'))
        return 77
    listed = json.loads((pathlib.Path(options.build) / 'tests/amd/programs.json').read_text())
    environments = policies(listed['policies'], options.policies)
    defects = tomllib.loads((HERE / 'defects.toml').read_text()).get('program', [])
    rows = [row for row in listed['programs'] if not options.names or row['name'] in options.names.split(',')]
    table, totals = {}, collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        work = [(root.version, row['name'], pool.submit(Program(root, row, listed, environments, defects).compare))
                for root in found for row in rows for _ in range(options.repeat)]
        for version, name, done in work:
            verdict, verdicts, notes = done.result()
            totals[version][verdict] += 1
            table.setdefault(version, {})[name] = {'verdict': verdict, 'policies': verdicts, 'notes': notes}
            print(f'{version} {name:<22} {verdict}' + ''.join(f'\n    {note}' for note in notes), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table, indent=1) + '\n')
    for version, counts in totals.items():
        print(f'{version}: {counts["same"]} programs the same under {len(environments)} policies, {counts["AMD"]} end or differ '
              f'natively by AMD\'s fault, {counts["DIFFERS"]} differ, {counts["ENDS"]} end natively for no known reason')
    return 1 if any(counts['DIFFERS'] or counts['ENDS'] for counts in totals.values()) else 0


if __name__ == '__main__':
    sys.exit(main())
