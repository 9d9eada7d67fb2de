"""run_program.py: the test of one program.

run_program.py native --runtime DIR [--calls TABLE NAME] PROGRAM [ARGUMENT...]
    It must end with code 0, print something, and make exactly the calls that the table states for NAME.

run_program.py pair --runtime DIR --library FILE [--before FILE] [--policy NAME [KEY=VALUE...]]... [--calls TABLE NAME]
                    -- PROGRAM [ARGUMENT...]
    Under the library, with each of the policies (without one: the defaults), it must print the same bytes and end with the
    same code as natively. --before: a library that LD_PRELOAD must name first. With --calls, the first policy's run must
    make exactly the calls of the table's `library` column, and more of its steps must cost exactly those of `steady`.

A program that ends with 77 natively cannot run here: so does the test, which counts as skipped.

The table (TOML): [NAME.native] and [NAME.library], call = count; calls it does not name are not compared.
[NAME.steady], steps = [few, many]: the calls by which a run of many steps exceeds one of few, all of them; nothing may have
been made real in between.
"""
import argparse
import difflib
import sys
import tomllib

import runs


def wrong_calls(table, name, column, calls):
    with open(table, 'rb') as file:
        expected = tomllib.load(file).get(name, {}).get(column, {})
    return [f'{call}: {calls[call]} calls, expected {count}' for call, count in expected.items() if calls[call] != count]


def wrong_steady_calls(table, name, command, **how):
    """What differs from the table where the program makes more steps under the library."""
    with open(table, 'rb') as file:
        expected = tomllib.load(file).get(name, {}).get('steady')
    if expected is None:
        return []
    few, many = (runs.run([*command, '--steps', steps], report=True, **how) for steps in expected.pop('steps'))
    wrong = [f'{call}: {many.calls[call] - few.calls[call]} calls more, expected {expected.get(call, 0)}'
             for call in sorted(many.calls | few.calls | expected.keys())
             if many.calls[call] - few.calls[call] != expected.get(call, 0)]
    made_real = [sum(told['count'] for told in done.report['graphs']['materialisations']) for done in (few, many)]
    return wrong + ([f'made real: {made_real[0]} times, then {made_real[1]} times'] if made_real[0] != made_real[1] else [])


def complain(title, lines):
    print(f'{title}:')
    for line in lines:
        print(f'  {line}')
    return 1


def parse(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('mode', choices=('native', 'pair'))
    parser.add_argument('--runtime', required=True)
    parser.add_argument('--library')
    parser.add_argument('--before', action='append', default=[])
    parser.add_argument('--policy', action='append', nargs='+', default=[])
    parser.add_argument('--calls', nargs=2, metavar=('TABLE', 'NAME'))
    parser.add_argument('command', nargs='+')
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    native = runs.run(options.command, runtime=options.runtime)
    if native.code == 77:
        print(native.stdout.decode(errors='replace'), end='')
        return 77
    if native.code != 0 or not native.stdout:
        return complain(f'native run ended with code {native.code}', native.stderr.splitlines() or ['and printed nothing'])
    if options.mode == 'native':
        wrong = wrong_calls(*options.calls, 'native', native.calls) if options.calls else []
        return complain('calls of the native run', wrong) if wrong else 0

    failed = 0
    for index, (name, *settings) in enumerate(options.policy or [['default']]):
        environment = dict(setting.split('=', 1) for setting in settings)
        environment.setdefault('GRAPHPOOL_GRAPH_WEIGH', 'false')  # what small captures cost would decide over counts
        pooled = runs.run(options.command, runtime=options.runtime, preload=[*options.before, options.library],
                          environment=environment)
        if (pooled.code, pooled.stdout) != (native.code, native.stdout):
            difference = difflib.unified_diff(native.stdout.decode(errors='replace').splitlines(),
                                              pooled.stdout.decode(errors='replace').splitlines(),
                                              'native', 'library', lineterm='')
            failed |= complain(f'policy {name}: code {pooled.code}, natively {native.code}',
                               [*list(difference)[:40], *pooled.stderr.splitlines()[-40:]])
        if options.calls and index == 0:
            wrong = wrong_calls(*options.calls, 'library', pooled.calls)
            wrong += wrong_steady_calls(*options.calls, options.command, runtime=options.runtime,
                                        preload=[*options.before, options.library], environment=environment)
            failed |= complain(f'policy {name}: calls that reached the runtime', wrong) if wrong else 0
    return failed


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
