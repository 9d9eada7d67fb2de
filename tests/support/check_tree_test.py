"""check_tree_test.py CHECK_TREE: each check of scripts/check_tree.py finds what it is there to find, and nothing in a sound tree."""
import importlib.util
import sys

RULES = ''.join(f'{n}. **A rule.**' + (' Test: `proof`.' if n > 40 else '') + '\n' for n in range(1, 42))
TESTS = ' '.join(f'rule_{n:02}_is_kept' for n in range(1, 40)) + ' proof'
SOUND = {'shim/RULES.md': RULES, 'tests/a_test.cpp': TESTS, 'shim/memory/README.md': 'See ../RULES.md and ../../tests/a*.'}


def main(path):
    spec = importlib.util.spec_from_file_location('check_tree', path)
    checks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checks)
    wrong = 0

    def expect(check, count, **changes):
        nonlocal wrong
        tree = SOUND | {name.replace('__', '/').replace('_dot_', '.'): text for name, text in changes.items()}
        findings = list(getattr(checks, check)(tree))
        if len(findings) != count:
            wrong += 1
            print(f'{check} with {changes}: {count} findings expected, {findings}')

    expect('names_outside', 0)
    expect('names_outside', 1, shim__x_dot_cpp='// in ../gone.h\n')
    expect('names_outside', 1, tests__x='folder / "../../notes/table.csv"')
    expect('names_outside', 1, scripts__x='cat "$top/../notes"')
    expect('rules_without_tests', 0)
    expect('rules_without_tests', 2, tests__a_test_dot_cpp=TESTS.replace('rule_07_', '').replace('proof', ''))
    expect('rules_without_tests', 1, shim__RULES_dot_md=RULES.replace(' Test: `proof`', ''))
    expect('rules_without_tests', 1, shim__RULES_dot_md=RULES.replace('\n5. **', '\n55, **'))
    table = '| `hooks/` | a |\n| `shim/upper/` | b |\n| `shim/lower/` | c |\n'
    rooms = {'shim__README_dot_md': table, 'shim__upper__a_dot_h': '#pragma once\n', 'shim__lower__b_dot_h': '#pragma once\n'}
    expect('upward_includes', 0, **rooms, shim__upper__a_dot_cpp='#include "shim/lower/b.h"\n')
    expect('upward_includes', 1, **rooms, shim__lower__b_dot_cpp='#include "shim/upper/a.h"\n')
    expect('upward_includes', 1, **rooms, shim__loose_dot_h='#pragma once\n')
    expect('upward_includes', 1, shim__README_dot_md='No table.\n')
    return wrong > 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
