"""The man page and bash's completion: nothing that --help tells is missing, and both are read without a complaint."""
import shutil
import subprocess
import unittest

import support
from graphpool import main, manual

GROFF = shutil.which('groff')


def squeezed(text):
    return ' '.join(text.split())


class ManPage(unittest.TestCase):
    @unittest.skipUnless(GROFF, 'groff is not installed')
    def test_it_tells_all_that_help_tells(self):
        done = subprocess.run([GROFF, '-man', '-Tutf8', '-ww', '-P-c', '-P-b', '-P-u', '-rLL=200n'], input=manual.man(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=True, timeout=60)
        self.assertEqual('', done.stderr)
        page = squeezed(done.stdout.replace('\u2010', '-').replace('\u2212', '-').replace('\u2019', "'"))
        for command in main.COMMANDS:
            for text in ['graphpool {} {}'.format(command.name, command.usage), command.summary[1:], *command.details.split('\n\n')]:
                self.assertIn(squeezed(text), page)
            for option in command.options:
                self.assertIn(squeezed('{} {} {}'.format(option.name, option.value or '', option.text)), page)
            for line, what in command.examples:
                self.assertIn(squeezed(line + ' ' + what), page)

    def test_text_that_roff_would_read_as_its_own(self):
        self.assertEqual('\\&.so x\n\\&\'y\n\\-\\-a\\en', manual.roff('.so x\n\'y\n--a\\n'))


class Completion(support.CommandTest):
    def completed(self, line):
        """What bash offers for the last word of the line."""
        words = line.split(' ')
        script = '{}\nCOMP_WORDS=({}) COMP_CWORD={}\n_graphpool\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'.format(
            manual.bash(), ' '.join("'{}'".format(word) for word in words), len(words) - 1)
        done = subprocess.run(['bash', '--norc', '-u', '-c', script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, env=support.environment(), timeout=60)
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        return done.stdout.split()

    def test_words(self):
        for line, expected in (('graphpool comp', ['compare']), ('graphpool --v', ['--version']),
                               ('graphpool run --ver', ['--verify']), ('graphpool policy sh', ['show']),
                               ('graphpool policy show --ch', ['--changed']), ('graphpool report --html', ['--html']),
                               ('graphpool run --quiet -- tru', ['true', 'truncate']), ('graphpool run -- true --ver', []),
                               ('graphpool run ', []), ('graphpool no-such --', [])):
            self.assertLessEqual(set(expected), set(self.completed(line)), line)
            self.assertEqual(not expected, not self.completed(line), line)

    def test_every_command_and_option(self):
        self.assertLessEqual({command.name for command in main.COMMANDS if ' ' not in command.name},
                             set(self.completed('graphpool ')))
        for command in main.COMMANDS:
            self.assertEqual({option.name for option in command.options},
                             set(self.completed('graphpool {} -'.format(command.name))), command.name)


if __name__ == '__main__':
    support.main()
