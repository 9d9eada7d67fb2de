"""The words of the command: help, version, unknown words, and a Python of 2016."""
import ast
import pathlib
import sys

import support
from graphpool import options
from graphpool.options import Command, Option, UsageError

COMMANDS = ('run', 'report', 'explain', 'compare', 'policy', 'policy check', 'policy show', 'selftest')


class Words(support.CommandTest):
    def test_help_is_on_stdout_with_examples(self):
        for command in COMMANDS:
            for word in ('--help', '-h'):
                code, output, errors = self.graphpool(*command.split(), word)
                self.assertEqual((0, ''), (code, errors))
                self.assertTrue(output.startswith('usage: graphpool {}'.format(command)), output)
                self.assertIn('examples:\n  graphpool', output.replace('examples:\n  srun', 'examples:\n  graphpool'))
                self.assertLessEqual(max(map(len, output.splitlines())), options.WIDTH + 4)
        for word in ('--help', '-h', 'help'):
            code, output, errors = self.graphpool(word)
            self.assertEqual((0, ''), (code, errors))
            for command in COMMANDS:
                if ' ' not in command:
                    self.assertIn('\n  {} '.format(command), output)

    def test_version_of_command_and_library(self):
        code, output, errors = self.graphpool('--version')
        version = (support.TOP / 'VERSION').read_text().strip()
        self.assertEqual((0, ''), (code, errors))
        self.assertEqual('graphpool {}'.format(version), output.splitlines()[0])
        self.assertTrue(output.splitlines()[1].startswith('library {} ('.format(version)), output)

    def test_version_without_a_library(self):
        code, output, errors = self.graphpool('--version', GRAPHPOOL_LIBRARY='/nowhere.so')
        self.assertEqual((125, ''), (code, errors))
        self.assertIn('/nowhere.so is not there', output)
        code, output, errors = self.graphpool('--version', GRAPHPOOL_LIBRARY=self.folder)
        self.assertEqual((125, ''), (code, errors))
        self.assertIn('is a folder: GRAPHPOOL_LIBRARY must name libgraphpool.so itself', output)

    def test_unknown_words_are_named_with_the_nearest(self):
        self.refused(2, says='which command? There are run, report, explain, compare, check, policy, selftest')
        self.refused(2, 'rnu', says='unknown command rnu, did you mean run?')
        self.refused(2, 'python3', says='unknown command python3; to run a program: graphpool run -- PROGRAM')
        self.refused(2, '--versoin', says='unknown option --versoin, did you mean --version?')
        self.refused(2, '--polcy', says='unknown option --polcy, did you mean --policy of graphpool run?')
        self.refused(2, '--report=x', says='--report is an option of run: graphpool run --report ...')
        self.refused(2, '--unlike-anything', says='unknown option --unlike-anything\n')
        self.refused(2, 'run', '--polcy', 'x', says=['run: unknown option --polcy, did you mean --policy?', 'graphpool run --help'])
        self.refused(2, 'run', '--polcy=x', says='unknown option --polcy, did you mean --policy?')
        self.refused(2, 'run', '-x', says='unknown option -x')
        self.refused(2, 'run', '--quiet=1', says='--quiet takes no value')
        self.refused(2, 'run', '--policy', says='--policy needs a value: --policy FILE')
        self.refused(2, 'run', '--policy', '--', 'true', says='--policy needs a value')
        self.refused(2, 'run', '--report', 'a', '--report', 'b', says='--report is given twice')
        self.refused(2, 'policy', says='which one? There are check, show and learn')
        self.refused(2, 'policy', 'chek', says='did you mean check?')

    def test_selftest_hands_its_words_on(self):
        code, output, errors = self.graphpool('selftest', GRAPHPOOL_BUILD=self.folder)
        self.assertEqual((125, ''), (code, output))
        self.assertIn('selftest.json is not there: run scripts/build first', errors)
        for words, said in ((['--only', 'prob'], '--only: no part prob; did you mean probes?'),
                            (['--only', 'zz'], '--only: no part zz; there are probes, costs, programs, benchmarks'),
                            (['--aks=x'], 'unknown option --aks=x; did you mean --ask?')):
            errors = self.refused(2, 'selftest', *words)
            self.assertEqual('graphpool: selftest: {}\nTry: graphpool selftest --help\n'.format(said), errors)
        output = self.graphpool('selftest', '--help')[1]
        for option in ('--ask PROBE,...', '--limit SECONDS', '--launcher WORDS', '--runtime FOLDER'):
            self.assertIn('\n  {} '.format(option), output)

    def test_selftest_needs_no_python3_in_the_path(self):
        process = self.start(support.COMMAND, 'selftest', '--only', 'prob', command=sys.executable, PATH='/nowhere')
        code, _, errors = self.finish(process)
        self.assertEqual(2, code, errors)


class Parsing(support.CommandTest):
    COMMAND = Command('x', '', '', None, [Option('--value', 'V', ''), Option('--flag', None, ''), Option('-n', 'N', ''),
                                          Option('--many', 'M', '', repeats=True)], program=True)

    def parse(self, *words):
        return options.parse(self.COMMAND, words)

    def test_values(self):
        words = self.parse('--value=a=b', '--many', '1', '--many=2', '-n', '3', '--flag')
        self.assertEqual(('a=b', ['1', '2'], '3', True, []), (words.value, words.many, words.n, words.flag, words.rest))
        self.assertEqual('4', self.parse('-n4').n)
        self.assertEqual('', self.parse('--value=').value)

    def test_the_programs_words_are_its_own(self):
        self.assertEqual(['prog', '--flag', '--', '-n'], self.parse('prog', '--flag', '--', '-n').rest)
        self.assertEqual(['--flag', 'x'], self.parse('--', '--flag', 'x').rest)
        self.assertEqual(['-'], self.parse('-').rest)
        with self.assertRaises(UsageError):
            self.parse('--unlike-anything')

    def test_nearest(self):
        for word, near in (('polcy', 'policy'), ('reprot', 'report'), ('expl', 'explain'), ('zzz', None), ('r', None)):
            self.assertEqual(near, options.nearest(word, ['policy', 'report', 'explain', 'run']), word)


class OldPython(support.CommandTest):
    """Python 3.6 reads every file, and the library has what it imports."""

    NEWER = ('dataclasses', 'capture_output', 'removeprefix', 'removesuffix', 'annotations', 'cached_property', 'dirs_exist_ok')

    def test_every_file(self):
        files = sorted(pathlib.Path(support.TOP / 'command' / 'graphpool').glob('*.py')) + [support.COMMAND]
        # The self-test is shipped, too.
        files += [support.TOP / 'tests' / path for path in ('probes/selftest.py', 'probes/answers.py', 'support/runs.py')]
        self.assertGreater(len(files), 10)
        for path in files:
            text = path.read_text()
            tree = ast.parse(text, str(path), feature_version=(3, 6))
            for node in ast.walk(tree):
                names = [getattr(node, 'id', None), getattr(node, 'attr', None), getattr(node, 'arg', None),
                         getattr(node, 'module', None)] + [each.name for each in getattr(node, 'names', [])
                                                           if isinstance(each, ast.alias)]
                self.assertFalse(set(names) & set(self.NEWER), '{}: {}'.format(path, names))


if __name__ == '__main__':
    support.main()
