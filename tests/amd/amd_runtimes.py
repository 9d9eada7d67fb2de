"""amd_runtimes.py: AMD's own runtimes that scripts/amd has brought, and how a program is made for one and run on it.

A program's objects, as the build has compiled them, are linked against the runtime, or its source is compiled against it. It
is started by the C library of the same suite, with HSA on the CPU (tests/runtimes/amd) before any other. LD_PRELOAD holds for
that loader as for the system's.
"""
import os
import pathlib
import shutil
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
LIBRARIES = 'usr/lib/x86_64-linux-gnu'
LOADER = 'usr/lib64/ld-linux-x86-64.so.2'
# Debian 12's own runtime, which is installed rather than brought.
INSTALLED = '5.2.3'
# What the runtime itself needs is found when it runs, with its own C library.
LINKED = ['-Wl,--allow-shlib-undefined', '-Wl,--unresolved-symbols=ignore-in-shared-libs', '-lpthread', '-ldl']
# The CPU runtime's kernels do the same: see README.md.
UNCONTRACTED = {'HIPRTC_COMPILE_OPTIONS_APPEND': '-ffp-contract=off'}


def newer(source, target):
    """Whether the target has to be made."""
    return not target.exists() or target.stat().st_mtime <= source.stat().st_mtime


class Root:
    """One runtime, and the build folder whose HSA it runs on."""

    def __init__(self, folder, build, version=''):
        self.folder, self.version, self.build = folder.resolve(), version or folder.name, pathlib.Path(build).resolve()

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
        return self.make(target, objects, more)

    def compile(self, source, target, more=('-O1',)):
        """The program of one source file, compiled against this runtime and what else is given, at the path `target`."""
        return self.make(target, [source], ['-std=c++20', '-D__HIP_PLATFORM_AMD__', '-Wno-ignored-attributes', f'-I{TOP}', *more])

    def compile_hip(self, source, target, devices, more=()):
        """The same with kernels in the source: hipcc makes its object, for these devices. It takes no C++20 in headers of hipCUB's."""
        compiled = target.with_suffix('.o')
        if newer(source, compiled):
            compiled.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(['hipcc', *(f'--offload-arch={device}' for device in devices), '-std=c++17', '-O2', '-c', source, '-o', compiled,
                            *map(str, more)], check=True)
        return self.make(target, [compiled], [])

    def make(self, target, sources, options):
        """Runs the compiler, unless the target is newer than the sources."""
        if not any(newer(source, target) for source in sources):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_name(f'{target.name}.{os.getpid()}')
        subprocess.run(['g++', '-o', made, *sources, *map(str, options), *self.libraries('amdhip64', 'hiprtc'), *LINKED], check=True)
        made.replace(target)
        return target

    def launcher(self, folders=(), options=()):
        """The words before a program's: `folders` are searched for libraries before the runtime's, `options` are the loader's."""
        searched = [self.build / 'tests/runtimes/amd', *folders, self.folder / LIBRARIES]
        return [str(self.folder / LOADER), *map(str, options), '--library-path', ':'.join(map(str, searched))]

    def command(self, program, arguments=(), **launched):
        return [*self.launcher(**launched), str(program), *map(str, arguments)]


def roots_to_compile_for(build):
    """Those that are there. Says so where there is none, or no compiler."""
    there = roots(build) if shutil.which('g++') else []
    if not there:
        print("no runtime of AMD's is there, or no compiler: scripts/amd brings the runtimes")
    return there


def roots(build, versions=(), top=TOP):
    """Those that are there, of the versions asked for (all that scripts/amd has brought, if none is)."""
    found = sorted(path.parent for path in (top / 'build-amd').glob('*/complete'))
    there = [Root(folder, build) for folder in found if not versions or folder.name in versions]
    installed = Root(pathlib.Path('/'), build, INSTALLED)
    return there + [installed] * (INSTALLED in versions and any((installed.folder / LIBRARIES).glob('libamdhip64.so.5.2.*')))
