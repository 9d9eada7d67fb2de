#!/usr/bin/env python3
"""faces.py COMPILER VERSION FOLDER: makes faces of the C library in FOLDER, so that what is linked to them runs beside an older one.

A face is a library without code. It has each symbol of the installed C library, in the newest version of that symbol up to VERSION.
There are three, as there were three libraries before 2.34: libc.so.6, libpthread.so.0 and libdl.so.2. libc.so is the linker script
that -lc finds.
"""
import pathlib
import re
import subprocess
import sys

SYMBOL = re.compile(r'^\s*\d+: ([0-9a-f]+)\s+(\S+) (FUNC|OBJECT|IFUNC|NOTYPE)\s+(GLOBAL|WEAK)\s+DEFAULT\s+(\w+) (\w+)@@?GLIBC_([\d.]+)$', re.MULTILINE)
# (face, the names of its symbols). The first pattern that matches a symbol decides.
FACES = [('libpthread.so.0', re.compile(r'_*(pthread|sem)_')), ('libdl.so.2', re.compile(r'dl(addr1?|close|error|info|m?open|v?sym)$')),
         ('libc.so.6', re.compile(''))]


def number(version):
    return tuple(int(part) for part in version.split('.'))


def symbols(library, most):
    """Returns {name: (its newest version up to `most`, place)}. `place` of data is (address, size, binding), of a function None."""
    text = subprocess.run(['readelf', '--dyn-syms', '--wide', library], stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout
    found = {}
    for address, size, kind, binding, section, name, version in SYMBOL.findall(text):
        if section not in ('UND', 'ABS') and number(version) <= most and (name not in found or number(version) > number(found[name][0])):
            found[name] = version, (address, int(size, 0), binding) if kind == 'OBJECT' else None
    return found


def make(compiler, path, names):
    """Makes the face at `path`, which has these symbols. `names`: what symbols() returns."""
    by_version, functions, data = {}, [], {}
    for name, (version, place) in sorted(names.items()):
        by_version.setdefault(version, []).append(name)
        kind, size = ('object', place[1]) if place else ('function', 1)
        weak = place and place[2] == 'WEAK'  # the linker copies a weak name together with the name that is not
        label = '.{3} {0}\n.type {0}, @{1}\n.size {0}, {2}\n{0}:'.format(name, kind, size, 'weak' if weak else 'globl')
        if place:
            data.setdefault(place[0], []).append((label, size))
        else:
            functions.append(label + ' .skip 1')
    # Names that share an address share it in the face, too. A program that has a copy of `environ` must have `__environ` at the same
    # place, because libc sets `__environ`.
    datas = ['.balign 32\n' + '\n'.join(label for label, _ in labels) + '\n.skip {}'.format(max(size for _, size in labels))
             for labels in data.values()]
    lines = ['.text'] + functions + ['.bss'] + datas
    source, script = path.with_suffix('.S'), path.with_suffix('.map')
    source.write_text('\n'.join(lines) + '\n.section .note.GNU-stack,"",@progbits\n')
    script.write_text(''.join('GLIBC_{} {{ {}; }};\n'.format(version, '; '.join(by_version[version]))
                              for version in sorted(by_version, key=number)))
    subprocess.run(compiler + ['-shared', '-nostdlib', '-Wl,-soname,' + path.name, '-Wl,--version-script=' + str(script),
                               '-o', str(path), str(source)], check=True)


def file_of(compiler, name):
    return subprocess.run(compiler + ['-print-file-name=' + name], stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout.strip()


def main(compiler, version, folder):
    compiler, folder = compiler.split(), pathlib.Path(folder).resolve()
    left = symbols(file_of(compiler, 'libc.so.6'), number(version))
    for face, pattern in FACES:
        names = {name: what for name, what in left.items() if pattern.match(name)}
        if not names:
            sys.exit('{}: no symbol up to GLIBC_{}'.format(face, version))
        make(compiler, folder / face, names)
        left = {name: what for name, what in left.items() if name not in names}
    (folder / 'libc.so').write_text('GROUP ( {0}/libc.so.6 {1} AS_NEEDED ( {0}/libpthread.so.0 {0}/libdl.so.2 {2} ) )\n'.format(
        folder, file_of(compiler, 'libc_nonshared.a'), file_of(compiler, 'ld-linux-x86-64.so.2')))


if __name__ == '__main__':
    main(*sys.argv[1:])
