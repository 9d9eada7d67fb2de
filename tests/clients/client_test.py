"""client_test.py TABLE NAME --programs DIR --runtime DIR --library FILE [--before FILE]
client_test.py --list TABLE

Runs the client NAME of the table natively and under the library, as its runs say. Every run must print what the native one
printed and show the counts that the table states for it. The table (TOML):

    [NAME]
    program = "..."                  # NAME where it is not given
    arguments = ["--steps", "40"]
    runtime = {CPUHIP_REUSE = "once"}  # the environment of every run, the native one too
    code = 1                         # what every run ends with; 0 where it is not given
    [NAME.native]
    calls = {hipGraphInstantiate = 40}
    [[NAME.library]]                 # one or more
    settings = {GRAPHPOOL_POOL_BACKING = "vmm"}
    calls = {hipGraphInstantiate = 1}
    report = {"graphs.captures_avoided" = 39, "graphs.launches_by_way.patch" = "<=4"}
    figures = {addresses = 2}

A count is a number or a bound ("<=N", ">=N"). `refusals` and `materialisations` of the report are counted by their reason:
"graphs.refusals.REASON".
"""
import argparse
import difflib
import pathlib
import re
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import runs  # noqa: E402

FIGURE = re.compile(r'^figure (\w+) (-?\d+)$', re.MULTILINE)


def holds(value, expected):
    if isinstance(expected, int):
        return value == expected
    bound = re.fullmatch(r'(<=|>=)(-?\d+)', expected)
    if not bound:
        raise SystemExit(f'{expected!r} is neither a number nor a bound such as ">=39"')
    return value <= int(bound[2]) if bound[1] == '<=' else value >= int(bound[2])


def in_report(report, path):
    """The number at a dotted path; 0 for a reason that no list of reasons has. A path that leads nowhere is an error."""
    place = report
    names = path.split('.')
    for index, name in enumerate(names):
        if isinstance(place, list):
            reason = '.'.join(names[index:])
            return sum(told['count'] for told in place if told['reason'] == reason)
        if name not in place:
            raise SystemExit(f'the report has no {path}')
        place = place[name]
    return place


def wrong_counts(table, done):
    figures = {name: int(number) for name, number in FIGURE.findall(done.stderr)}
    found = [(f'calls of {name}', done.calls[name], count) for name, count in table.get('calls', {}).items()]
    found += [(f'figure {name}', figures.get(name), count) for name, count in table.get('figures', {}).items()]
    found += [(path, in_report(done.report, path), count) for path, count in table.get('report', {}).items()]
    return [f'{what}: {value}, expected {expected}' for what, value, expected in found
            if value is None or not holds(value, expected)]


def tell(title, lines):
    print(f'{title}:')
    for line in lines:
        print(f'  {line}')


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--list', action='store_true')
    parser.add_argument('table')
    parser.add_argument('name', nargs='?')
    parser.add_argument('--programs')
    parser.add_argument('--runtime')
    parser.add_argument('--library')
    parser.add_argument('--before', action='append', default=[])
    options = parser.parse_args()
    with open(options.table, 'rb') as file:
        tables = tomllib.load(file)
    if options.list:
        print('\n'.join(tables))
        return 0

    table = tables[options.name]
    command = [f'{options.programs}/client_{table.get("program", options.name)}', *table.get('arguments', [])]
    environment = table.get('runtime', {})
    native = runs.run(command, runtime=options.runtime, environment=environment)
    if native.code != table.get('code', 0) or not native.stdout:
        tell(f'native run ended with code {native.code}', native.stderr.splitlines() or ['and printed nothing'])
        return 1
    failed = False
    if wrong := wrong_counts(table.get('native', {}), native):
        tell('native run', wrong)
        failed = True
    for run in table['library']:
        # What small captures cost would decide over counts.
        settings = {'GRAPHPOOL_GRAPH_WEIGH': 'false', **run.get('settings', {})}
        done = runs.run(command, runtime=options.runtime, preload=[*options.before, options.library],
                        environment={**environment, **settings}, report=True)
        title = 'under the library' + (f' with {settings}' if settings else '')
        if (done.code, done.stdout) != (native.code, native.stdout):
            difference = difflib.unified_diff(native.stdout.decode(errors='replace').splitlines(),
                                              done.stdout.decode(errors='replace').splitlines(),
                                              'native', 'library', lineterm='')
            tell(f'{title}: code {done.code}', [*list(difference)[:40], *done.stderr.splitlines()[-40:]])
            failed = True
        elif wrong := wrong_counts(run, done):
            tell(title, wrong + done.stderr.splitlines()[-20:])
            failed = True
    return failed


if __name__ == '__main__':
    sys.exit(main())
