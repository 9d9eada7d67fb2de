"""readme_test.py [--write] README POLICY_KEYS: the table of environment variables in policy/README.md is what the rows of the
policy's keys say: name, default and help of each, in their order. --write: makes it so."""
import re
import sys

STRING = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
KEYS = re.compile(r'POLICY_TOP\((\w+), [^"]*"([^"]*)",\s*' + STRING + r'\)|POLICY_KEY\((\w+), (\w+), [^"]*"([^"]*)",\s*' + STRING +
                  r'\)|POLICY_RESERVED\((\w+), ' + STRING + r'\)')
TABLE = re.compile(r'\| variable \| default \| \|\n(?:\|.*\n)+')


def text_of(literals):
    return ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"').replace('|', '\\|')


def rows(text):
    for top, top_default, top_help, section, name, default, help_text, reserved, reserved_help in KEYS.findall(
            text[text.index('\nPOLICY_TOP'):]):
        if top:
            yield top.upper(), top_default, text_of(top_help)
        elif section:
            yield '{}_{}'.format(section, name).upper(), default, text_of(help_text)
        else:
            yield reserved, '', text_of(reserved_help)


def table(text):
    lines = ['| `GRAPHPOOL_{}` | {} | {} |\n'.format(name, '`{}`'.format(default) if default else '', told)
             for name, default, told in rows(text)]
    return '| variable | default | |\n| --- | --- | --- |\n' + ''.join(lines), len(lines)


def main(arguments):
    write = arguments[0] == '--write'
    readme, policy_keys = arguments[write:]
    with open(readme) as file:
        text = file.read()
    with open(policy_keys) as file:
        keys = file.read()
    wanted, count = table(keys)
    all_rows = len(re.findall(r'^POLICY_(?:TOP|KEY|RESERVED)\(', keys[keys.index('\nPOLICY_TOP'):], re.MULTILINE))
    if count != all_rows:
        print('{} of {} rows were read'.format(count, all_rows))
        return 1
    found = TABLE.search(text)
    if write:
        with open(readme, 'w') as file:
            file.write(text[:found.start()] + wanted + text[found.end():])
        return 0
    for have, want in zip(found.group().splitlines(), wanted.splitlines()):
        if have != want:
            print('{} says\n  {}\nand policy_keys.def\n  {}'.format(readme, have, want))
    return found.group() != wanted


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
