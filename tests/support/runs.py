"""runs.py: running a test program natively or under the library, on a runtime of our choice; reading what it left.

A run's environment is this process's without any GRAPHPOOL_ and CPUHIP_ variable, so that only what the caller says counts.
It is Python 3.6, because it is shipped with the self-test.
"""
import collections
import json
import os
import pathlib
import subprocess
import tempfile
import typing

TIMEOUT_S = 300


class Run(typing.NamedTuple):
    code: int                  # negative: the signal that ended it
    stdout: bytes
    stderr: str
    calls: collections.Counter  # calls that reached the CPU runtime, by name
    times_ns: list             # of each step, if the program knows --times
    report: dict               # the library's own report; empty where it wrote none


def read_list(path):
    """A list of what is run, written by meson or packed: @HERE@ is the folder it lies in."""
    path = pathlib.Path(path).resolve()
    return json.loads(path.read_text().replace('@HERE@', json.dumps(str(path.parent))[1:-1]))


def read_journal(path):
    """The CPU runtime's journal: a line a call, the first word its name."""
    if not path.exists():
        return collections.Counter()
    with path.open() as lines:
        return collections.Counter(line.split(None, 1)[0] for line in lines if line.strip())


def clean_environment():
    return {name: value for name, value in os.environ.items()
            if not name.startswith(('GRAPHPOOL_', 'CPUHIP_')) and name != 'LD_PRELOAD'}


def run(command, *, runtime=None, preload=(), environment=None, journal=True, times=False, report=False):
    """Runs a program. runtime: folder of the HIP runtime found first; preload: libraries for LD_PRELOAD."""
    with tempfile.TemporaryDirectory(prefix='run-') as folder:
        folder = pathlib.Path(folder)
        variables = clean_environment()
        if runtime:
            others = variables.get('LD_LIBRARY_PATH')
            variables['LD_LIBRARY_PATH'] = f'{runtime}:{others}' if others else str(runtime)
        if preload:
            variables['LD_PRELOAD'] = ':'.join(str(library) for library in preload)
        if journal:
            variables['CPUHIP_JOURNAL'] = str(folder / 'journal')
        if report:
            variables['GRAPHPOOL_REPORT'] = str(folder / 'report.json')
        variables.update(environment or {})
        arguments = [str(part) for part in command]
        if times:
            arguments += ['--times', str(folder / 'times')]
        try:
            done = subprocess.run(arguments, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=TIMEOUT_S)
            code, stdout, stderr = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            code, stdout = 124, late.stdout or b''
            stderr = (late.stderr or b'') + f'\nstill running after {TIMEOUT_S} s\n'.encode()
        times_file, report_file = folder / 'times', folder / 'report.json'
        return Run(code, stdout, stderr.decode(errors='replace'), read_journal(folder / 'journal'),
                   [int(line) for line in times_file.read_text().split()] if times_file.exists() else [],
                   json.loads(report_file.read_text()) if report_file.exists() else {})
