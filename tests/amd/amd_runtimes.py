"""amd_runtimes.py: AMD's own runtimes that scripts/amd has brought, and how a program of the build is run on one.

A program's objects, as the build has compiled them, are linked against the runtime; it is started by the C library of the
same suite, with HSA on the CPU (tests/runtimes/amd) before any other. LD_PRELOAD holds for that loader as for the system's.
"""
import os
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = 'usr/lib/x86_64-linux-gnu'
# The CPU runtime's kernels do the same: see README.md.
UNCONTRACTED = {'HIPRTC_COMPILE_OPTIONS_APPEND': '-ffp-contract=off'}


class Root:
    """One runtime, and the build folder whose HSA it runs on."""

    def __init__(self, folder, build):
        self.folder, self.version, self.build = folder.resolve(), folder.name, pathlib.Path(build).resolve()

    def libraries(self, *names):
        """Those that are there: before 6.0 hipRTC is in the runtime itself."""
        return [file for name in names for file in (self.folder / LIBRARIES).glob(f'lib{name}.so')]

    def link(self, program, more=()):
        """The program of the build whose path in the build folder is `program`, linked against this runtime and what else is
        given."""
        objects = sorted((self.build / f'{program}.p').glob('*.o')) or sorted(self.build.glob(f'{program}.o'))
        target = self.build / 'tests/amd' / self.version / pathlib.Path(program).name
        if not objects:
            raise FileNotFoundError(f'{program} is not built in {self.build}')
        if target.exists() and target.stat().st_mtime > max(file.stat().st_mtime for file in objects):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_name(f'{target.name}.{os.getpid()}')
        libraries = self.libraries('amdhip64', 'hiprtc')
        # What the runtime itself needs is found when it runs, with its own C library.
        subprocess.run(['g++', '-o', made, *objects, *libraries, '-Wl,--allow-shlib-undefined',
                        '-Wl,--unresolved-symbols=ignore-in-shared-libs', *map(str, more), '-lpthread', '-ldl'], check=True)
        made.replace(target)
        return target

    def command(self, program, arguments=()):
        folders = [self.build / 'tests/runtimes/amd', self.folder / LIBRARIES]
        return [str(self.folder / 'usr/lib64/ld-linux-x86-64.so.2'), '--library-path', ':'.join(map(str, folders)),
                str(program), *map(str, arguments)]


def roots(build, versions=(), top=TOP):
    """Those that are there, of the versions asked for (all, if none is)."""
    found = sorted(path.parent for path in (top / 'build-amd').glob('*/complete'))
    return [Root(folder, build) for folder in found if not versions or folder.name in versions]
