"""names.py PROBES RELIED SOURCE...: the engine's facts and the probes are the same names; each is named in a file of the
engine beside what it decides (`probe NAME`, or a table's row), and what is named there exists.
"""
import pathlib
import re
import sys

import answers

NAMED = re.compile(r'\b[Pp]robes? ((?:[a-z]+(?:_[a-z]+)+(?:, | and )?)+)')


def main(probes, relied, *folders):
    asked, facts = set(answers.known(probes)), set(answers.relied(relied, 0))
    wrong = [f'{name}: a probe, but no fact of shim/process/facts.cpp' for name in asked - facts]
    wrong += [f'{name}: a fact, but no probe' for name in facts - asked]
    named = set()
    for path in (path for folder in folders for path in sorted(pathlib.Path(folder).rglob('*'))):
        if path.suffix not in ('.cpp', '.h', '.def') or path.name.startswith('facts.'):
            continue
        # A comment's lines as one text.
        text = re.sub(r'\s*\n\s*//[/!]?<?\s*', ' ', path.read_text())
        for names in NAMED.findall(text):
            for name in re.findall(r'[a-z]+(?:_[a-z]+)+', names):
                named.add(name)
                if name not in facts:
                    wrong.append(f'{path}: there is no probe {name}')
        named |= {name for name in facts if f'"{name}"' in text}
    wrong += [f'{name}: named nowhere in the engine' for name in facts - named]
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
