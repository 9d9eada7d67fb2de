#!/usr/bin/env python3
"""versions_test.py VERSION FILE...: what of other libraries the files that are shipped need: nothing of the C library that is newer
than VERSION, nothing of the C++ library or of the compiler's, and only the libraries of the C library. Those after --hip may need
HIP 5.2, too. Lists what it found."""
import re
import subprocess
import sys

ALLOWED = {'libc.so.6', 'libpthread.so.0', 'libdl.so.2', 'libm.so.6', 'ld-linux-x86-64.so.2'}
HIP = 'libamdhip64.so.5'


def read(file, *what):
    return subprocess.run(['readelf', '--wide', *what, file], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout


def number(version):
    return tuple(map(int, version.split('.')))


def main(most, files):
    bad, allowed, families = 0, ALLOWED, {'GLIBC': number(most)}
    for file in files:
        if file == '--hip':
            allowed, families = allowed | {HIP}, dict(families, hip=(5, 2))
            continue
        needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', read(file, '--dynamic')))
        wanted = {}
        for name, family, version in re.findall(r' UND (\w+)@(\w+?)_([\d.]+) ', read(file, '--dyn-syms')):
            wanted.setdefault((family, number(version)), []).append(name)
        newest = {}
        for family, version in wanted:
            newest[family] = max(newest.get(family, version), version)
        print('{}: {}; needs {}'.format(file, ', '.join('{}_{}'.format(family, '.'.join(map(str, version)))
                                                        for family, version in sorted(newest.items())), ', '.join(sorted(needed))))
        wrong = ['{}_{}: {}'.format(family, '.'.join(map(str, version)), ', '.join(names))
                 for (family, version), names in sorted(wanted.items()) if family not in families or version > families[family]]
        wrong += ['{} is needed'.format(library) for library in sorted(needed - allowed)]
        if not wanted:
            wrong.append('no symbol is needed: is it a library?')
        for line in wrong:
            print('  not everywhere: ' + line)
        bad += len(wrong)
    return 1 if bad or not files else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
