"""thread_safety.py BUILD REFUSED CLANG: what shim/base/thread_safety.h says holds in every source of shim/ and hooks/.

Clang checks each source with the flags of the build and generates nothing. First it checks REFUSED, a source that breaks
each of the rules: it must refuse exactly the lines that end with `// refused`. Prints what clang says; exit code 1 if it
says anything about a source, or misses a line.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOP = pathlib.Path(__file__).resolve().parents[2]
TAKES_A_VALUE = ('-o', '-MQ', '-MF')
LEFT_OUT = ('-c', '-g', '-MD', '-O2')


def check(clang, entry, source):
    """What clang says of the source, compiled as the entry's is."""
    flags, skip = [], False
    for word in shlex.split(entry['command']):
        if skip or word in TAKES_A_VALUE:
            skip = not skip
        elif word.startswith('-') and word not in LEFT_OUT:
            flags.append(word)
    done = subprocess.run([clang, *flags, '-Wno-error', '-Wno-everything', '-Wthread-safety', '-fsyntax-only',
                           '-fno-color-diagnostics', source], cwd=entry['directory'], capture_output=True, text=True, check=False)
    return done.stderr or ('' if done.returncode == 0 else f'{source}: clang ended with {done.returncode}\n')


def main(build, refused, clang):
    with open(pathlib.Path(build) / 'compile_commands.json', encoding='utf-8') as file:
        entries = json.load(file)
    sources = {(pathlib.Path(entry['directory']) / entry['file']).resolve(): entry for entry in entries}
    checked = {str(source): entry for source, entry in sources.items()
               if source.suffix == '.cpp' and any(source.is_relative_to(TOP / room) for room in ('shim', 'hooks'))}
    if not checked:
        print('no source of shim/ or hooks/ is in compile_commands.json')
        return 1
    said = check(clang, next(iter(checked.values())), refused)
    lines = pathlib.Path(refused).read_text(encoding='utf-8').split('\n')
    expected = {number for number, line in enumerate(lines, 1) if line.endswith('// refused')}
    found = {int(number) for number in re.findall(re.escape(refused) + r':(\d+):\d+: warning', said)}
    if found != expected or not expected or 'error:' in said:
        print(f'{refused}: clang refuses lines {sorted(found)}, expected {sorted(expected)}\n{said}')
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [each for each in pool.map(lambda source: check(clang, checked[source], source), sorted(checked)) if each]
    print(*findings, sep='\n', end='')
    return bool(findings)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
