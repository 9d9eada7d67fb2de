"""The text of shim/hip/hip_hooks.def and of the tables that it includes, in their order."""
import pathlib
import re

INCLUDE = re.compile(r'#include "(shim/hip/rows/\w+\.def)"')


def row_files(path):
    """The file and the tables that it includes."""
    top = pathlib.Path(path).resolve().parents[2]
    included = INCLUDE.findall(pathlib.Path(path).read_text(encoding='utf-8'))
    return [pathlib.Path(path), *(top / name for name in included)]


def row_lines(path):
    """Yields (file, number, line) of every line that begins with HIP_: the rows."""
    for file in row_files(path):
        for number, line in enumerate(file.read_text(encoding='utf-8').split('\n'), 1):
            if line.startswith('HIP_'):
                yield file, number, line
