"""differences.py MATRIX README: where the CPU runtime, without any switch, answers otherwise than AMD's runtime of the same version
is a row of the table in the README, and every row is such a probe.
"""
import csv
import pathlib
import re
import sys


def main(matrix, readme):
    with open(matrix, newline='') as file:
        table = list(csv.DictReader(file))
    versions = [name.split()[1] for name in table[0] if name.startswith('amd ')]
    found = {}
    for row in table:
        for version in versions:
            answers = {row[f'{runtime} {version}'].split(':')[0] for runtime in ('amd', 'cpu')}
            if answers == {'holds', 'fails'}:
                found.setdefault(row['probe'], []).append(version)
    told = dict(re.findall(r'^\| `(\w+)` \| ([\d., ]+) \|', pathlib.Path(readme).read_text(), re.MULTILINE))
    found = {name: ', '.join(different) for name, different in found.items()}
    wrong = [f'{name}: {found.get(name, "no difference")}; the README says {told.get(name, "nothing")}'
             for name in sorted(found.keys() | told.keys()) if found.get(name) != told.get(name)]
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
