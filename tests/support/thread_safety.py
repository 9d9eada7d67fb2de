"""thread_safety.py BUILD REFUSED CLANG: what shim/base/thread_safety.h says holds in every source of shim/ and hooks/.

Clang checks each source with the flags of the build and generates nothing. Besides what it says of guarded data, two
things are refused in the rooms of ALL_SAID: a mutex that is no capability, because nothing can be guarded by it
(bare_mutexes.h lets clang find them), and a lock that no annotation in its file names (but one that GUARDS_NO_DATA). First REFUSED is checked, a source that breaks each of the rules:
exactly the lines that end with `// refused` must be refused. Prints what was found; exit code 1 if there is anything, or
if a line was missed.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
ROOMS = ('shim', 'hooks')
TAKES_A_VALUE = ('-o', '-MQ', '-MF', '-include')
LEFT_OUT = ('-c', '-g', '-MD', '-O2')
HIP = '-D__HIP_PLATFORM_AMD__'
# The rooms in which every mutex is a capability, and every lock is named by what it guards.
ALL_SAID = ('hooks', *(f'shim/{room}' for room in ('base', 'callsite', 'capture', 'compile', 'costs', 'hip', 'kernel', 'memory',
                                                    'process', 'report', 'staging', 'streams', 'verify')))
# The classes that make a capability of a mutex: the only places for a bare one.
LOCK_CLASSES = ('shim/base/lock_rank.h', 'shim/base/fork_lock.h', 'shim/base/owner_lock.h', 'shim/base/sole_lock.h',
                'shim/compile/robust_mutex.h', 'shim/compile/robust_mutex.cpp')
BARE = 'a mutex that is no capability'
LOCK = re.compile(r'\b(?:RankedMutex|ShortLock|SoleLock|OwnerLock|ForkLock|RobustMutex)(?:<[^;{}()]*>)?\s+(\w+)(?:\{[^{}]*\})?\s*;')


def all_said(path):
    """Whether a mutex of this file needs an annotation."""
    if not path.is_relative_to(TOP):
        return True
    name = str(path.relative_to(TOP))
    return name not in LOCK_CLASSES and (not name.startswith(ROOMS) or any(name.startswith(room + '/') for room in ALL_SAID))


def is_bare_mutex(path, line, column):
    """Whether a mutex is declared there, and not a pointer or a reference to one of the program's."""
    if not all_said(path):
        return False
    rest = path.read_text(encoding='utf-8').split('\n')[line - 1][column - 1:]
    return re.match(r'\w+(?: const)? ?[*&]', rest) is None


def flags_of(entry):
    flags, skip = [], False
    for word in shlex.split(entry['command']):
        if skip or word in TAKES_A_VALUE:
            skip = not skip
        elif word.startswith('-') and word not in LEFT_OUT:
            flags.append(word)
    return flags


class Headers:
    """bare_mutexes.h, and what most sources that know HIP include, compiled once for each set of flags."""

    def __init__(self, clang, folder):
        self.clang, self.folder = clang, pathlib.Path(folder)
        self.compiled = {}

    def compile_for(self, entries):
        for entry in entries:
            flags = flags_of(entry)
            if HIP in flags and self.key(flags) not in self.compiled:
                target = self.folder / f'{len(self.compiled)}.pch'
                subprocess.run([self.clang, *flags, '-w', '-include', HERE / 'bare_mutexes.h', '-x', 'c++-header',
                                TOP / 'shim/base/common_headers.h', '-o', target], cwd=entry['directory'], check=True)
                self.compiled[self.key(flags)] = target

    def included(self, flags):
        compiled = self.compiled.get(self.key(flags))
        return ['-include-pch', compiled] if compiled else ['-include', HERE / 'bare_mutexes.h']

    @staticmethod
    def key(flags):
        return tuple(flag for flag in flags if not flag.startswith('-I'))


def check(clang, headers, entry, source):
    """What clang says of the source, compiled as the entry's is: its lines, by place."""
    flags = flags_of(entry)
    done = subprocess.run([clang, *flags, *headers.included(flags), '-Wno-error', '-Wno-everything', '-Wthread-safety',
                           '-Wdeprecated-declarations', '-fsyntax-only', '-fno-color-diagnostics', '-fno-caret-diagnostics', source],
                          cwd=entry['directory'], capture_output=True, text=True, check=False)
    said = []
    for line in done.stderr.splitlines():
        place = re.match(r'(.+?):(\d+):(\d+): (?:warning|error|fatal error): (.*)', line)
        if not place:
            continue
        path = (pathlib.Path(entry['directory']) / place[1]).resolve()
        if '-Wdeprecated-declarations' not in line or (BARE in line and is_bare_mutex(path, int(place[2]), int(place[3]))):
            said.append((path, int(place[2]), place[4]))
    if done.returncode and not said:
        said.append((pathlib.Path(source), 0, f'clang ended with {done.returncode}: {done.stderr}'))
    return said


def idle_locks(path):
    """The locks that a file declares and that no annotation in it, or in the file it belongs to, names: they guard nothing."""
    text = path.read_text(encoding='utf-8')
    both = text + ''.join(each.read_text(encoding='utf-8') for each in (path.with_suffix('.h'), path.with_suffix('.cpp'))
                          if each != path and each.exists())
    marks = re.findall(r'\b(?:GUARDED_BY|REQUIRES|EXCLUDES|ACQUIRE|RELEASE)\(([^()]*)\)', both)
    named = {word for mark in marks for word in re.findall(r'\w+', mark)}
    return [(path, text.count('\n', 0, found.start(1)) + 1, f"lock '{found[1]}' guards nothing that is said")
            for found in LOCK.finditer(text) if found[1] not in named]


def main(build, refused, clang):
    with open(pathlib.Path(build) / 'compile_commands.json', encoding='utf-8') as file:
        entries = json.load(file)
    sources = {(pathlib.Path(entry['directory']) / entry['file']).resolve(): entry for entry in entries}
    checked = {str(source): entry for source, entry in sources.items()
               if source.suffix == '.cpp' and any(source.is_relative_to(TOP / room) for room in ROOMS)}
    if not checked:
        print('no source of shim/ or hooks/ is in compile_commands.json')
        return 1
    with tempfile.TemporaryDirectory(prefix='thread-safety-') as folder:
        headers = Headers(clang, folder)
        headers.compile_for(checked.values())
        return report(clang, headers, refused, checked)


def report(clang, headers, refused, checked):
    sample = pathlib.Path(refused).resolve()
    said = [*check(clang, headers, next(iter(checked.values())), refused), *idle_locks(sample)]
    lines = sample.read_text(encoding='utf-8').split('\n')
    expected = {number for number, line in enumerate(lines, 1) if line.endswith('// refused')}
    found = {line for path, line, _ in said if path == sample}
    if found != expected or not expected or any(path != sample for path, _, _ in said):
        print(f'{refused}: lines {sorted(found)} are refused, expected {sorted(expected)}', *said, sep='\n')
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = {each for said in pool.map(lambda source: check(clang, headers, checked[source], source), sorted(checked))
                    for each in said}
    for room in ROOMS:
        findings.update(each for path in (TOP / room).rglob('*') if path.suffix in ('.h', '.cpp') and all_said(path)
                        for each in idle_locks(path))
    for path, line, text in sorted(findings):
        print(f'{path.relative_to(TOP) if path.is_relative_to(TOP) else path}:{line}: {text}')
    return bool(findings)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
