#!/usr/bin/env python3
"""check_tree.py: what holds of the tree as a whole; scripts/check runs it. Prints each finding; exit code 1 if there is one.

- No file names anything outside of the tree: each path that begins with `../` leads to a file or folder of it.
- Each rule of shim/RULES.md has its tests: rules 1 to 39 by `rule_NN` in a test's name, later ones by the names they give.
- Includes point downwards only, in the order of the rooms that shim/README.md lists.

Each check takes the tree as {path: text of a tracked file} and yields its findings, so that check_tree_test.py can try it.
"""
import pathlib
import posixpath
import re
import subprocess
import sys

RULES = 'shim/RULES.md'
# Paths with `../` that name no file of the tree, by file, each for a reason.
UPWARDS_ON_PURPOSE = {
    'scripts/check_tree.py': {'../outside.h', '../RULES.md', '../gone.h', '../../notes/table.csv', '../notes'},
    'tests/support/check_tree_test.py': {'../RULES.md', '../gone.h', '../../notes/table.csv', '../notes'},
    'tests/runtimes/cpu/tests/rtc_test.cpp': {'../outside.h'},  # what hipRTC must refuse to read
}
UPWARDS = re.compile(r'(?<![\w.*])(?:\.\./)+[\w./*-]*')
RULE = re.compile(r'^(\d+)\. \*\*', re.MULTILINE)
EQUIPMENT = 40  # the rule about the CPU runtime, which tests of all others use


def tracked():
    """The tree: the text of every tracked file that is one."""
    tree = {}
    for name in subprocess.run(['git', 'ls-files', '-z'], capture_output=True, text=True, check=True).stdout.split('\0'):
        path = pathlib.Path(name)
        if name and path.is_file() and not path.is_symlink():
            try:
                tree[name] = path.read_text()
            except UnicodeDecodeError:
                pass
    return tree


def names_outside(tree):
    places = set(tree)
    for name in tree:
        places.update(str(folder) for folder in pathlib.PurePosixPath(name).parents)
    for name, text in tree.items():
        for number, line in enumerate(text.split('\n'), 1):
            # Meson's build folder has the tree's folders, and files of its own in them.
            shown = re.sub(r"current_build_dir\(\) / '[^']*'", '', line)
            for path in UPWARDS.findall(shown):
                if not path.endswith('/..'):
                    path = path.rstrip('.')  # the end of a sentence
                beginning, star, _ = path.partition('*')
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), beginning))
                found = target in places or (star and any(place.startswith(target) for place in places))
                if not found and path not in UPWARDS_ON_PURPOSE.get(name, ()):
                    yield f'{name}:{number}: {path} is not in the tree'


def rules_without_tests(tree):
    tests = '\n'.join(text for name, text in tree.items() if name.startswith(('tests/', 'scripts/bench')))
    parts = RULE.split(tree.get(RULES, ''))[1:]
    rules = {int(number): text for number, text in zip(parts[::2], parts[1::2])}
    for number in range(1, max(rules, default=EQUIPMENT) + 1):
        if number not in rules:
            yield f'{RULES}: there is no rule {number}'
        elif number < EQUIPMENT:
            if f'rule_{number:02}_' not in tests:
                yield f'{RULES}: no test is named after rule {number}'
        elif number > EQUIPMENT:
            named = re.findall(r'`([^`]+)`', rules[number].partition('Test')[2])
            if not named:
                yield f'{RULES}: rule {number} names no test'
            for name in named:
                if name.startswith('scripts/') and name.split()[0] in tree or name in tests or has(tree, name):
                    continue
                yield f'{RULES}: rule {number} names {name}, which is not there'


def has(tree, file):
    return any(name.rpartition('/')[2] == file for name in tree)


ROOM = re.compile(r'^\| `((?:shim/)?\w+)/`', re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)


def upward_includes(tree):
    """The rooms' order, from top to bottom, is the table of rooms in shim/README.md."""
    order = ROOM.findall(tree.get('shim/README.md', ''))
    if len(order) < 2:
        yield 'shim/README.md: its table of rooms is not there'
    def room(name):
        return '/'.join(name.split('/')[:2 if name.startswith('shim/') else 1])
    for name, text in tree.items():
        if not name.startswith(('shim/', 'hooks/', 'policy/')) or not name.endswith(('.h', '.cpp', '.def', '.S')):
            continue
        if room(name) not in order:
            yield f'{name}: {room(name)} is no room of shim/README.md'
            continue
        for target in INCLUDE.findall(text):
            if target in tree and room(target) in order and order.index(room(target)) < order.index(room(name)):
                yield f'{name}: includes {target}, of a room above'


CHECKS = [names_outside, rules_without_tests, upward_includes]


def main():
    tree = tracked()
    findings = [finding for check in CHECKS for finding in check(tree)]
    print(*findings, sep='\n', end='\n' if findings else '')
    return bool(findings)


if __name__ == '__main__':
    sys.exit(main())
