"""matrix.py check|write COLUMN --probes FILE --relied FILE --matrix FILE [--amd FOLDER --hsa FOLDER]
          [--version NUMBER] [--careful] [KEY=VALUE...] [-- LAUNCHER...]
matrix.py take RESULTS --probes FILE --relied FILE --matrix FILE
matrix.py refuted ALL --probes FILE --relied FILE --matrix FILE

Asks all probes and compares the answers with the column of the matrix, or writes them there. KEY=VALUE is in the probes'
environment; LAUNCHER runs them. --amd: on AMD's runtime unpacked there (scripts/amd), over the libhsa-runtime64.so.1 of
--hsa; exit code 77 (skipped) where it is not there.
--version: skipped where the runtime has another. Where nothing can run kernels, what needs none is compared, and the
rest is counted. Measured answers are not compared. Nothing that the engine relies on may fail. --careful: what may harm
more than a process is not asked.

`take` writes the columns that a file of results of tests/gpu/measure.py has. `refuted` asks nothing: no column may have an
answer that refutes what the engine relies on of that version.

The matrix is a CSV: `probe`, then a column a runtime. A cell: holds, fails or unknown, and after a colon what was seen.
"""
import argparse
import csv
import json
import os
import pathlib
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


def agree(stated, answer):
    """A cell may say only that it fails: where the runtime reads memory that it has freed, each run sees something else."""
    return stated == str(answer) or stated == 'fails' == answer.answer


def wrong_cells(found, kinds, column, table, compared):
    """Where the answers of these kinds differ from the column, and how many could not be compared."""
    wrong, left = [], 0
    for name, answer in found.items():
        stated = table.get(name, {}).get(column, '')
        if answer.answer == 'unknown' and answer.value in answers.NO_DEVICE_WORK:
            left += 1
        elif kinds[name][0] in compared and not agree(stated, answer):
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


def take(options, kinds):
    """The columns of a file of results."""
    columns, table = read(options.matrix)
    taken = [asked_of for asked_of in json.loads(pathlib.Path(options.column).read_text()).get('probes', []) if asked_of['answers']]
    for asked_of in taken:
        if asked_of['column'] not in columns:
            columns.append(asked_of['column'])
        for name, (answer, seen) in asked_of['answers'].items():
            if name in kinds:
                plain = kinds[name][0] == 'measured' or not seen
                table.setdefault(name, {})[asked_of['column']] = answer if plain else f'{answer}: {seen}'
        print(f'{asked_of["column"]}: {len(asked_of["answers"])} answers')
    write(options.matrix, columns, table, kinds)
    return 0 if taken else 1


def refuted(options, kinds):
    """What a column refutes and the engine relies on of its version."""
    columns, table = read(options.matrix)
    wrong = []
    for column in columns:
        major, minor = column.split(' ')[-1].split('.')[:2]
        relied = answers.relied(options.relied, int(major) * 10_000_000 + int(minor) * 100_000)
        wrong += [f'{column}: {name}: {cells[column]}' for name, cells in table.items()
                  if name in kinds and kinds[name][0] != 'measured' and relied[name][0] == 'relied'
                  and cells[column].startswith('fails')]
    print('\n'.join(wrong))
    return 1 if wrong or not columns else 0


def parse(arguments):
    launcher = []
    if '--' in arguments:
        at = arguments.index('--')
        arguments, launcher = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('mode', choices=('check', 'write', 'take', 'refuted'))
    parser.add_argument('column')
    for name in ('--probes', '--relied', '--matrix'):
        parser.add_argument(name, required=True)
    parser.add_argument('--amd')
    parser.add_argument('--hsa')
    parser.add_argument('--version', type=int)
    parser.add_argument('--careful', action='store_true')
    parser.add_argument('variables', nargs='*')
    options = parser.parse_intermixed_args(arguments)
    return options, launcher or (amd_launcher(options.amd, options.hsa) if options.amd else [])


def main(arguments):
    options, launcher = parse(arguments)
    environment = dict(variable.split('=', 1) for variable in options.variables)
    kinds = answers.known(options.probes)
    if options.mode in ('take', 'refuted'):
        return {'take': take, 'refuted': refuted}[options.mode](options, kinds)
    risky = [] if options.careful else ['--risky']
    try:
        found, version, _ = answers.ask(options.probes, [*risky, '--limit', LIMIT_S], launcher=launcher, environment=environment)
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
        compared = ('plain',) if options.amd or options.version or options.careful else ('plain', 'risky')
        differ, left = wrong_cells(found, kinds, options.column, table, compared)
        wrong += differ
    print(f'{options.column}: version {version}, {len(found)} probes, {left} not compared because nothing runs kernels')
    for line in wrong:
        print(f'  {line}')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
