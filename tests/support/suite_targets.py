"""suite_targets.py BUILD [--suite NAME | --no-suite NAME]...: prints the files that the tests of these suites need built,
one a line, by their paths below BUILD. Suites are chosen as Meson's test command does."""
import json
import pathlib
import sys

from one_test import files_of, suite_of


def chosen(suite, wanted, unwanted):
    return suite not in unwanted and (not wanted or suite in wanted)


def main(folder, *options):
    folder = str(pathlib.Path(folder).resolve())
    info = pathlib.Path(folder) / 'meson-info'
    pairs = list(zip(options[::2], options[1::2], strict=True))
    wanted = {name for option, name in pairs if option == '--suite'}
    unwanted = {name for option, name in pairs if option == '--no-suite'}
    tests = json.loads((info / 'intro-tests.json').read_text())
    known = {suite_of(test) for test in tests}
    if unknown := (wanted | unwanted) - known:
        sys.exit(f'there is no suite {", ".join(sorted(unknown))}; there are {", ".join(sorted(known))}')
    tests = [test for test in tests if chosen(suite_of(test), wanted, unwanted)]
    print(*sorted(files_of(tests, json.loads((info / 'intro-targets.json').read_text()), folder)), sep='\n')


if __name__ == '__main__':
    main(*sys.argv[1:])
