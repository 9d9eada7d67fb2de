"""journal.py count FILE NAME...: how many calls of these names a journal of the CPU runtime holds, one number a line;
journal.py list FILE: all names with their counts."""
import pathlib
import sys

from runs import read_journal


def main(arguments):
    if len(arguments) >= 3 and arguments[0] == 'count':
        calls = read_journal(pathlib.Path(arguments[1]))
        for name in arguments[2:]:
            print(calls[name])
    elif len(arguments) == 2 and arguments[0] == 'list':
        for name, count in sorted(read_journal(pathlib.Path(arguments[1])).items()):
            print(f'{count:8} {name}')
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
