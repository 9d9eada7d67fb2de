"""pack.py LIST FOLDER [--commit NAME]: copies what a list (gpu.json, written by meson) names into a folder that can be
carried to a machine with a GPU, binaries stripped, with the scripts that run it and the list, whose paths are relative to
the folder ("@HERE@/..."). Notes the commit: the tree's, marked where the tree differs from it. Prints the size."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = [HERE / name for name in ('measure.py', 'programs.py', 'steps.py')]
SCRIPTS += [HERE.parent / 'support' / name for name in ('ab.py', 'runs.py')]
SCRIPTS += [HERE.parent / 'probes/answers.py']


class Packer:
    def __init__(self, folder):
        self.folder = folder
        self.packed = {}

    def file(self, path, below):
        if path not in self.packed:
            target = self.folder / below / path.name
            if target.exists():
                sys.exit(f'two files would be {below}/{path.name}; the second is {path}')
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            with path.open('rb') as opened:
                if opened.read(4) == b'\x7fELF':
                    subprocess.run(['strip', '--strip-unneeded', target], check=True)
            self.packed[path] = f'@HERE@/{below}/{path.name}'
        return self.packed[path]

    def text(self, text):
        key, equals, value = text.rpartition('=')
        path = pathlib.Path(value)
        if not path.is_absolute():
            return text
        if path.is_dir():  # of a runtime
            for library in path.glob('lib*.so.*'):
                if library.is_file() and not library.is_symlink():
                    self.file(library, path.name)
            return f'{key}{equals}@HERE@/{path.name}'
        return f'{key}{equals}{self.file(path, "files")}' if path.exists() else text

    def value(self, value):
        if isinstance(value, dict):
            return {key: self.value(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value


def commit_of_tree():
    asked = subprocess.run(['git', '-C', HERE, 'describe', '--always', '--dirty=+', '--exclude=*'], capture_output=True,
                           text=True, check=False)
    return asked.stdout.strip()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--commit')
    options = parser.parse_args()
    folder = options.folder
    if folder.exists() and any(folder.iterdir()) and not (folder / 'gpu.json').exists():
        sys.exit(f'{folder} holds something else')
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = {'commit': options.commit or commit_of_tree(),
              **Packer(folder).value(json.loads(pathlib.Path(options.list).read_text()))}
    (folder / 'gpu.json').write_text(json.dumps(packed, indent=1) + '\n')
    for script in SCRIPTS:
        shutil.copy(script, folder / script.name)
    size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())
    print(f'{folder}: {size / 2**20:.1f} MiB, commit {packed["commit"]}')


if __name__ == '__main__':
    main()
