"""pack_test.py BENCH: packs a list of small scripts that stand for programs, moves the pack elsewhere, and runs it by
BENCH (scripts/bench) --runtime cuda --pack: what is in the pack, what is run, what is written down."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BENCH = pathlib.Path(sys.argv.pop()).resolve()
FIGURE = '#!/bin/sh\necho \'{"figure": "the runtime was found", "unit": "1", "value": \'$(ls "${LD_LIBRARY_PATH%%:*}" | wc -l)\'}\'\n'
PROBES = '#!/bin/sh\nprintf "runtime\\tholds\\t50221153 A device\\nfirst\\tfails\\tseen\\nsecond\\tholds\\t\\n"\n'


class Pack(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.top = pathlib.Path(kept.name)
        build = self.top / 'build'
        for path, text in {'runtime/libx.so.5': '', 'runtime/notes.txt': '', 'runtime/so6/liby.so.6': '',
                           'library': '', 'staged.toml': '', 'rest': '', 'test': '#!/bin/sh\necho "[ PASSED ] 1 test."\n',
                           'program': '#!/bin/sh\necho bytes "$@"\n', 'figure': FIGURE, 'probes': PROBES}.items():
            (build / path).parent.mkdir(parents=True, exist_ok=True)
            (build / path).write_text(text)
            (build / path).chmod(0o755)
        runtime, newer = str(build / 'runtime'), str(build / 'runtime/so6')
        self.list = build / 'gpu.json'
        self.list.write_text(json.dumps({
            'library': str(build / 'library'), 'runtime': runtime,
            'tests': [{'name': 'runtime', 'command': [str(build / 'test')], 'runtime': newer}],
            'probes': [{'command': [str(build / 'probes')], 'runtime': runtime}],
            'policies': ['--policy', 'default', '--policy', 'staged', f'GRAPHPOOL_POLICY={build / "staged.toml"}'],
            'programs': [{'name': 'one', 'command': [str(build / 'program'), '--size', '3']}],
            'benchmarks': [{'name': 'alone', 'kind': 'alone', 'about': 'files', 'command': [str(build / 'figure')],
                            'runtime': newer}]}))

    def pack(self, *more):
        subprocess.run([sys.executable, HERE / 'pack.py', self.list, self.top / 'packed', *more], check=True,
                       stdout=subprocess.DEVNULL)
        return self.top / 'packed'

    def test_holds_what_is_needed_and_nothing_else(self):
        pack = self.pack()
        files = {str(path.relative_to(pack)) for path in pack.rglob('*') if path.is_file()}
        self.assertEqual(files, {'gpu.json', 'measure.py', 'programs.py', 'steps.py', 'ab.py', 'runs.py', 'answers.py',
                                 'runtime/libx.so.5', 'so6/liby.so.6', 'files/probes', 'files/library', 'files/staged.toml', 'files/test', 'files/program',
                                 'files/figure'})
        self.assertNotIn(str(self.top), (pack / 'gpu.json').read_text())

    def test_runs_where_it_was_carried(self):
        moved = self.top / 'else where'
        self.pack('--commit', 'abc').rename(moved)
        (self.top / 'build').rename(self.top / 'gone')
        before = (moved / 'gpu.json').read_text()
        done = subprocess.run([BENCH, '--runtime', 'cuda', '--pack', 'else where', '--json', 'written.json', 'tests', 'probes',
                               'programs', 'alone'], cwd=self.top, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((moved / 'gpu.json').read_text(), before)
        written = json.loads((self.top / 'written.json').read_text())
        self.assertEqual(written['commit'], 'abc')
        self.assertRegex(written['date'], r'^\d{4}-\d\d-\d\d$')
        self.assertIn('driver', written)
        self.assertIn('device', written)
        self.assertEqual(written['tests'], [{'name': 'runtime', 'code': 0}])
        self.assertEqual(written['probes'], [{'column': 'cuda 5.2', 'version': 50221153, 'device': 'A device',
                                              'answers': {'first': ['fails', 'seen'], 'second': ['holds', '']}}])
        self.assertEqual(written['programs'][0]['same'], {'default': True, 'staged': True})
        self.assertEqual(written['benchmarks'][0]['figures']['the runtime was found']['value'], 1)

    def test_says_what_failed(self):
        pack = self.pack()
        (pack / 'files/test').write_text('#!/bin/sh\necho wrong; exit 3\n')
        command = [BENCH, '--runtime', 'cuda', '--pack', pack, '--commit', 'other', '--json', self.top / 'written.json', 'tests']
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn('wrong', done.stdout)
        written = json.loads((self.top / 'written.json').read_text())
        self.assertEqual(written['tests'], [{'name': 'runtime', 'code': 3}])
        self.assertEqual(written['commit'], 'other')

    def test_a_folder_that_is_no_pack_is_refused(self):
        done = subprocess.run([BENCH, '--runtime', 'cuda', '--pack', self.top], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn('pack.py', done.stderr)
        other = self.top / 'other'
        other.mkdir()
        (other / 'kept').touch()
        packing = subprocess.run([sys.executable, HERE / 'pack.py', self.list, other], capture_output=True, check=False)
        self.assertEqual(packing.returncode, 1)
        self.assertTrue((other / 'kept').exists())


if __name__ == '__main__':
    unittest.main()
