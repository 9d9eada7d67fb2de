"""support.py: running the command `graphpool` on the CPU runtime, for the tests beside it.

meson gives the places in the environment: COMMAND_BUILD, COMMAND_RUNTIME, COMMAND_PROGRAMS, COMMAND_BEFORE (a sanitizer's library).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ['COMMAND_BUILD'])
RUNTIME = os.environ['COMMAND_RUNTIME']
PROGRAMS = pathlib.Path(os.environ['COMMAND_PROGRAMS'])
COMMAND = TOP / 'scripts' / 'graphpool'
TIMEOUT_S = 120

sys.path.insert(0, str(TOP / 'command'))
sys.dont_write_bytecode = True

# A program that calls HIP through ctypes: what a test does with it follows.
HIP_CALLS = '''\
import ctypes, os, signal, sys, time
hip = ctypes.CDLL('libamdhip64.so.5')
memory = ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
print('began', flush=True)
'''


def environment(**more):
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(('GRAPHPOOL_', 'CPUHIP_')) and name not in ('LD_PRELOAD', 'RANK')}
    variables['LD_LIBRARY_PATH'] = RUNTIME
    variables['GRAPHPOOL_BUILD'] = str(BUILD)
    if os.environ.get('COMMAND_BEFORE'):
        variables['LD_PRELOAD'] = os.environ['COMMAND_BEFORE']
    variables.update({name: str(value) for name, value in more.items()})
    return {name: value for name, value in variables.items() if value != 'unset'}


class CommandTest(unittest.TestCase):
    """A test in an empty folder of its own."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='command-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *words, command=COMMAND, **variables):
        return subprocess.Popen([str(command), *map(str, words)], cwd=str(self.folder), env=environment(**variables),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True, start_new_session=True)

    def finish(self, process):
        """(exit code, stdout, stderr)"""
        try:
            output, errors = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail('still running: {}'.format(process.communicate()))
        return process.returncode, output, errors

    def graphpool(self, *words, **variables):
        return self.finish(self.start(*words, **variables))

    def refused(self, code, *words, says=(), **variables):
        """It ends with this code, nothing on stdout, and each text on stderr; -> stderr."""
        got, output, errors = self.graphpool(*words, **variables)
        self.assertEqual((code, ''), (got, output), errors)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, errors)
        return errors

    def file(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def python(self, text, name='program.py'):
        """A program that calls HIP, then runs the text."""
        return [sys.executable, self.file(name, HIP_CALLS + textwrap.dedent(text))]

    def reports(self, folder='graphpool-reports'):
        return [json.loads(path.read_text()) for path in sorted((self.folder / folder).glob('*.json'))]


def main():
    unittest.main(verbosity=1)
