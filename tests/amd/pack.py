"""pack.py: copies one of AMD's runtimes and programs of ours into a folder that runs on another machine of the same kind, without
a build or a network. The folder brings its own C library: lib has the loader, the libraries and HSA on the CPU, bin the programs.
"""
import json
import pathlib
import shutil
import subprocess
import sys

from amd_runtimes import LIBRARIES, LOADER, TOP

# What the runtime opens by name.
OPENED = ('libamdhip64.so', 'libhiprtc.so', 'libhiprtc-builtins.so', 'libamd_comgr.so')


def commit_of_tree():
    asked = subprocess.run(['git', '-C', TOP, 'describe', '--always', '--dirty=+', '--exclude=*'], capture_output=True,
                           text=True, check=False)
    return asked.stdout.strip()


def needed(library):
    """What a library says that it needs, by name."""
    lines = subprocess.run(['readelf', '-d', library], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.rpartition('[')[2].rstrip(']') for line in lines if '(NEEDED)' in line]


def closure(folders, names):
    """The libraries of these names and all that they need, by name."""
    found, wanted = {}, list(names)
    while wanted:
        name = wanted.pop()
        if name not in found and not name.startswith('ld-linux'):
            paths = [folder / name for folder in folders if (folder / name).exists()]
            if not paths:
                sys.exit(f'{name} is in none of {", ".join(str(folder) for folder in folders)}')
            found[name] = paths[0].resolve()
            wanted += needed(paths[0])
    return found


def strip(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o755)
    subprocess.run(['strip', '--strip-unneeded', target], check=True)


class Pack:
    """`folder` is emptied if it is a pack already, which its `listing`, a JSON file, says. In that file @HERE@ stands for the
    folder (runs.read_list)."""

    def __init__(self, folder, root, listing):
        if folder.exists() and not folder.is_dir():
            sys.exit(f'{folder} is no folder')
        if folder.exists() and any(folder.iterdir()) and not (folder / listing).exists():
            sys.exit(f'{folder} holds something else')
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.root, self.listing = folder, root, listing
        self.library = '@HERE@/libgraphpool.so'
        self.launcher = [f'@HERE@/lib/{pathlib.Path(LOADER).name}', '--library-path', '@HERE@/lib']

    @staticmethod
    def program(name):
        return f'@HERE@/bin/{name}'

    def copy_libraries(self, programs):
        """The programs, paths by name, the library, and what they and the runtime need, stripped."""
        library = self.root.build / 'hooks/libgraphpool.so'
        of_runtime = self.root.folder / LIBRARIES
        opened = [name for name in OPENED if (of_runtime / name).exists()]
        opened += sorted({path.name for path in of_runtime.glob('libamd_comgr.so.?')})
        names = opened + [name for source in [library, *programs.values()] for name in needed(source)]
        first = {}
        for name, source in sorted(closure([self.root.build / 'tests/runtimes/amd', of_runtime], names).items(), reverse=True):
            if source in first:  # one file, or the loader would load it twice
                (self.folder / 'lib' / name).symlink_to(first[source])
            else:
                strip(source, self.folder / 'lib' / first.setdefault(source, name))
        shutil.copy((self.root.folder / LOADER).resolve(), self.folder / 'lib' / pathlib.Path(LOADER).name)
        for name, program in programs.items():
            strip(program, self.folder / 'bin' / name)
        strip(library, self.folder / library.name)

    def copy_scripts(self, scripts):
        """Files by the folder of the pack that they go into."""
        for where, files in scripts.items():
            (self.folder / where).mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(file, self.folder / where / file.name)

    def finish(self, listed):
        """Writes the listing, with the commit, and says how large the pack is."""
        (self.folder / self.listing).write_text(json.dumps({'commit': commit_of_tree(), **listed}, indent=1) + '\n')
        size = sum(path.stat().st_size for path in self.folder.rglob('*') if path.is_file() and not path.is_symlink())
        print(f'{self.folder}: {size / 2**20:.1f} MiB, commit {commit_of_tree()}')
