"""The demo of the source tree: its table and its two sentences, over two programs."""
import json
import re
import subprocess
import sys

import support

PREPARING = ('capture', 'kernels', 'copies', 'nodes', 'instantiate', 'update')
DEMO = support.TOP / 'tests' / 'support' / 'demo.py'


class Demo(support.CommandTest):
    def demo(self, *programs):
        listed = {'runtime': support.RUNTIME, 'library': str(support.BUILD / 'hooks/libgraphpool.so'),
                  'programs': [{'name': name, 'command': str(command)} for name, command in programs]}
        command = [sys.executable, str(DEMO), str(self.file('list.json', json.dumps(listed))), '--steps', '5', '--json',
                   str(self.folder / 'out.json')]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300,
                              env=support.environment())
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_table_and_verdict(self):
        code, lines, errors = self.demo(('transformer', support.PROGRAMS / 'transformer'), ('nodes', support.PROGRAMS / 'nodes'))
        self.assertEqual((0, ''), (code, errors))
        head = lines[3].split()
        rows = [line.split() for line in lines[4:8]]
        self.assertEqual(['transformer', 'native'], rows[0][:2])
        self.assertEqual('5', rows[0][head.index('instantiate')])
        self.assertEqual(('1', 'yes'), (rows[1][head.index('instantiate') - 1], rows[1][-1]))
        self.assertEqual('2 of 2 programs printed the same bytes under the library.', lines[-2])
        told = re.match(r'The calls from column capture to column update fell from (\d+) to (\d+); ', lines[-1])
        counts = [sum(int(row[head.index(title) - first]) for row in rows[first::2] for title in PREPARING) for first in (0, 1)]
        self.assertEqual([str(count) for count in counts], list(told.groups()))
        self.assertTrue(json.loads((self.folder / 'out.json').read_text())['identical'])

    def test_output_that_differs(self):
        script = self.file('differs', '#!/bin/sh\necho "$LD_PRELOAD"\n')
        script.chmod(0o755)
        code, lines, _ = self.demo(('differs', script))
        self.assertEqual((1, 'NO'), (code, lines[5].split()[-1]))
        self.assertEqual('0 of 1 programs printed the same bytes under the library.', lines[-2])

    def test_nothing_to_gain(self):
        code, lines, _ = self.demo(('true', '/bin/true'))
        self.assertEqual((1, '1 of 1 programs printed the same bytes under the library.'), (code, lines[-2]))
        self.assertIn(' did not fall: 0 natively, 0 under the library; ', lines[-1])

    def test_a_program_that_fails(self):
        code, _, errors = self.demo(('false', '/bin/false'))
        self.assertEqual((1, 'false: ended with code 1\n\n'), (code, errors))


if __name__ == '__main__':
    support.main()
