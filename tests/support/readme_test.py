"""readme_test.py README POLICY_KEYS: the README's table of environment variables has a row for every key of the policy, with
its default, and no row for anything else."""
import re
import sys

KEYS = re.compile(r'POLICY_TOP\((\w+), [^"]*"([^"]*)"|POLICY_KEY\((\w+), (\w+), [^"]*"([^"]*)"|POLICY_RESERVED\((\w+), ()')
ROWS = re.compile(r'^\| `GRAPHPOOL_(\w+)` \| (?:`([^`]*)`)? *\|', re.MULTILINE)


def keys(text):
    for top, top_default, section, name, default, reserved, none in KEYS.findall(text[text.index('\nPOLICY_TOP'):]):
        if top:
            yield top.upper(), top_default
        elif section:
            yield f'{section}_{name}'.upper(), default
        elif reserved:
            yield reserved, none


def main(readme, policy_keys):
    with open(readme) as file:
        shown = dict(ROWS.findall(file.read()))
    with open(policy_keys) as file:
        expected = dict(keys(file.read()))
    for name in sorted(shown.keys() | expected.keys()):
        if shown.get(name) != expected.get(name):
            print(f'GRAPHPOOL_{name}: the README says {shown.get(name)!r}, policy_keys.def {expected.get(name)!r}')
    return shown != expected or not expected


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
