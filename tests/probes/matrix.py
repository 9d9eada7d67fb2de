"""matrix.py check|write COLUMN --probes FILE --relied FILE --matrix FILE [--amd FOLDER --hsa FOLDER]
          [--version NUMBER] [KEY=VALUE...] [-- LAUNCHER...]

Asks all probes and compares the answers with the column of the matrix, or writes them there. KEY=VALUE is in the probes'
environment; LAUNCHER runs them. --amd: on AMD's runtime unpacked there (scripts/amd), over the libhsa-runtime64.so.1 of
--hsa; exit code 77 (skipped) where it is not there.
--version: skipped where the runtime has another. Where nothing can run kernels, what needs none is compared, and the
rest is counted. Measured answers are not compared. Nothing that the engine relies on may fail.

The matrix is a CSV: `probe`, then a column a runtime. A cell: holds, fails or unknown, and after a colon what was seen.
"""
import argparse
import csv
import os
import sys

import answers

LIMIT_S = '20'


def read(path):
    with open(path, newline='') as file:
        table = list(csv.DictReader(file))
    return list(table[0])[1:] if table else [], {row['probe']: row for row in table}


def write(path, columns, table, order):
    with open(path, 'w', newline='') as file:
        writer = csv.DictWriter(file, ['probe', *columns], restval='', lineterminator='\n')
        writer.writeheader()
        for name in order:
            writer.writerow({**table.get(name, {}), 'probe': name})


def wrong_cells(found, kinds, column, table, compared):
    """Where the answers of these kinds differ from the column, and how many could not be compared."""
    wrong, left = [], 0
    for name, answer in found.items():
        stated = table.get(name, {}).get(column, '')
        if answer.answer == 'unknown' and answer.value in answers.NO_DEVICE_WORK:
            left += 1
        elif kinds[name][0] in compared and str(answer) != stated:
            wrong.append(f'{name}: {answer}; the matrix says {stated or "nothing"}')
    wrong += [f'{name}: no such probe' for name in table if name not in kinds]
    return wrong, left


def amd_launcher(folder, hsa):
    library = f'{folder}/usr/lib/x86_64-linux-gnu'
    loader = f'{folder}/usr/lib64/ld-linux-x86-64.so.2'
    if not os.path.exists(f'{folder}/complete'):
        print(f'{folder}: scripts/amd has not unpacked it')
        sys.exit(77)
    return [loader, '--library-path', f'{hsa}:{library}']


def parse(arguments):
    launcher = []
    if '--' in arguments:
        at = arguments.index('--')
        arguments, launcher = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('mode', choices=('check', 'write'))
    parser.add_argument('column')
    for name in ('--probes', '--relied', '--matrix'):
        parser.add_argument(name, required=True)
    parser.add_argument('--amd')
    parser.add_argument('--hsa')
    parser.add_argument('--version', type=int)
    parser.add_argument('variables', nargs='*')
    options = parser.parse_intermixed_args(arguments)
    return options, launcher or (amd_launcher(options.amd, options.hsa) if options.amd else [])


def main(arguments):
    options, launcher = parse(arguments)
    environment = dict(variable.split('=', 1) for variable in options.variables)
    kinds = answers.known(options.probes)
    try:
        found, version, _ = answers.ask(options.probes, ['--risky', '--limit', LIMIT_S], launcher=launcher, environment=environment)
    except OSError as why:
        print(why)
        return 77 if options.version else 1
    if options.version not in (None, version):
        print(f'the runtime here is {version}')
        return 77
    relied = answers.relied(options.relied, version)
    wrong = [f'{name}: {answer}; the engine relies on it' for name, answer in found.items()
             if answer.answer == 'fails' and relied[name][0] == 'relied' and kinds[name][0] != 'measured']
    columns, table = read(options.matrix)
    left = 0
    if options.mode == 'write':
        if options.column not in columns:
            columns.append(options.column)
        for name, answer in found.items():
            table.setdefault(name, {})[options.column] = answer.answer if kinds[name][0] == 'measured' else str(answer)
        write(options.matrix, columns, table, kinds)
    else:
        # What is risky the library below AMD's decides.
        compared = ('plain',) if options.amd or options.version else ('plain', 'risky')
        differ, left = wrong_cells(found, kinds, options.column, table, compared)
        wrong += differ
    print(f'{options.column}: version {version}, {len(found)} probes, {left} not compared because nothing runs kernels')
    for line in wrong:
        print(f'  {line}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
