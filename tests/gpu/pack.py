"""pack.py LIST FOLDER: copies what a list (gpu.json, written by meson) names into a folder that can be carried to a machine
with a GPU, binaries stripped, and the list with its paths relative to the folder ("@HERE@/..."). Prints the size."""
import json
import pathlib
import shutil
import subprocess
import sys


class Packer:
    def __init__(self, folder):
        self.folder = folder
        self.packed = {}

    def file(self, path, below):
        if path not in self.packed:
            target = self.folder / below / path.name
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


def main(listed, folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packed = Packer(folder).value(json.loads(pathlib.Path(listed).read_text()))
    (folder / 'gpu.json').write_text(json.dumps(packed, indent=1) + '\n')
    here = pathlib.Path(__file__).parent
    for script in (*here.glob('*.py'), *(here.parent / 'support').glob('*.py')):
        shutil.copy(script, folder / script.name)
    size = sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())
    print(f'{folder}: {size / 2**20:.1f} MiB')


if __name__ == '__main__':
    main(*sys.argv[1:])
