"""graphpool compare: which runs are made, what is told, what is refused."""
import support
from graphpool import compare


class Compare(support.CommandTest):
    def test_a_program(self):
        code, output, errors = self.graphpool('compare', '-n', '2', '--', support.PROGRAMS / 'transformer', '--steps', '4')
        self.assertEqual(0, code, errors)
        order = [line.split(' library')[0].split()[-2:] for line in errors.splitlines() if ': run ' in line]
        self.assertEqual(['without', 'with', 'with', 'without'], [words[0] for words in order])
        self.assertRegex(output, r'output +the output is identical \(\d+ bytes\)')
        self.assertRegex(output, r'library +6 of 8 captures served \(75\.0 %\), by 2 processes of all its runs')
        self.assertRegex(output, r'wall time +[+-]\d+\.\d % \+- \d+\.\d: ')
        self.assertFalse((self.folder / 'graphpool-reports').exists())

    def test_output_that_differs(self):
        code, output, _ = self.graphpool('compare', '-n1', 'sh', '-c', 'echo "$LD_PRELOAD"')
        self.assertEqual(1, code)
        self.assertIn('the output DIFFERS under the library', output)
        self.assertIn('one run each tells no spread', output)
        self.assertIn('no HIP call was seen', output)

    def test_output_that_cannot_be_compared(self):
        code, output, _ = self.graphpool('compare', '-n', '2', 'sh', '-c', 'echo $$')
        self.assertEqual(0, code)
        self.assertIn('differs from run to run without the library', output)

    def test_a_program_that_fails(self):
        code, output, errors = self.graphpool('compare', '-n', '1', 'sh', '-c', 'echo broken >&2; exit 3')
        self.assertEqual(1, code)
        self.assertIn('    broken\n', errors)
        code, output, errors = self.graphpool('compare', '-n', '1', 'sh', '-c', 'test -z "$LD_PRELOAD"')
        self.assertEqual(1, code)
        self.assertIn('exit code 0 without, 1 with the library', output)

    def test_refused(self):
        self.refused(2, 'compare', says='which program?')
        for count in ('0', 'x', '-1', '1001'):
            self.refused(2, 'compare', '-n', count, 'true', says='a number of runs from 1 to 1000')
        self.refused(127, 'compare', 'no-such-program', says='not found in PATH')
        self.refused(125, 'compare', '--set', 'graph.slots=0', 'true', says=['an integer from 1 to 64', 'nothing was started'])
        self.refused(125, 'compare', 'true', says='is not there', GRAPHPOOL_LIBRARY='/nowhere.so')
        self.refused(125, 'compare', 'true', says='nothing was started', GRAPHPOOL_LIBRARY=self.file('x.so', ''))


class Verdicts(support.CommandTest):
    def test_differences_beside_the_spread(self):
        self.assertIn('no difference that 3 runs', compare.verdict([1.0, 1.2, 0.8], [1.0, 1.1, 0.9]))
        self.assertIn('-50.0 % +- ', compare.verdict([2.0, 2.01, 1.99], [1.0, 1.01, 0.99]))
        self.assertTrue(compare.verdict([2.0, 2.01, 1.99], [1.0, 1.01, 0.99]).endswith('faster under the library'))
        self.assertTrue(compare.verdict([1.0, 1.01, 0.99], [2.0, 2.01, 1.99]).endswith('slower under the library'))


if __name__ == '__main__':
    support.main()
