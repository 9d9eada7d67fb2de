"""main.py: the first word is a command; its module has its options, its help and what it does.

Exit codes: a command's own result; 2 where the words make no sense; 125 where graphpool itself cannot do it. `run` ends as
the program does.
"""
import os
import signal
import sys

from . import check, compare, explain, learn, options, places, policy, report, reports, run, selftest
from .options import UsageError
from .places import Missing



class Stream:
    """stdout or stderr, which may be closed. Best effort: what cannot be written is lost, and nothing stops for it. A letter that
    its encoding does not have is written as \\xe9 or the like."""

    def __init__(self, stream, best_effort):
        self.stream, self.best_effort = stream, best_effort

    def write(self, text):
        encoding = getattr(self.stream, 'encoding', None) or 'utf-8'
        return self.try_to('write', text.encode(encoding, 'backslashreplace').decode(encoding))

    def flush(self):
        self.try_to('flush')

    def try_to(self, name, *arguments):
        try:
            return getattr(self.stream, name)(*arguments) if self.stream is not None else None
        except (OSError, ValueError) as why:
            if not self.best_effort:
                why.filename = 'stdout'
                raise

    def __getattr__(self, name):
        return getattr(self.stream, name)


COMMANDS = [run.COMMAND, report.COMMAND, explain.COMMAND, compare.COMMAND, check.COMMAND, policy.COMMAND, policy.CHECK, policy.SHOW,
            learn.COMMAND, selftest.COMMAND]
OWN_FAULT = 125
WRONG_WORDS = 2

SUMMARY = 'makes captured HIP graphs of an unmodified program cheap, and says whether it does'
EXAMPLES = [
    ('graphpool run -- python3 train.py', 'runs it under the library, and says at the end what that did'),
    ('graphpool compare -n 3 -- python3 train.py --steps 200', 'is it faster, and is its output the same?'),
    ('graphpool explain graphpool-reports', 'what stood in the way')]

TOP_HELP = """\
usage: graphpool COMMAND [OPTION...] [ARGUMENT...]

{summary}.

commands:
{commands}

  graphpool COMMAND --help    what a command does, its options, examples
  graphpool --version         the version of the command and of the library
{examples}
"""


def top_help():
    shown = [command for command in COMMANDS if ' ' not in command.name]
    width = max(len(command.name) for command in shown)
    return TOP_HELP.format(summary=SUMMARY[:1].upper() + SUMMARY[1:], examples='\n'.join(options.examples_text(EXAMPLES)),
                           commands='\n'.join('  {:<{}}  {}'.format(command.name, width, command.summary)
                                              for command in shown))


def print_version():
    print('graphpool {}'.format(places.version()))
    try:
        path = places.library()
    except Missing as missing:
        print('library: {}'.format(missing))
        return OWN_FAULT
    print('library {} ({})'.format(places.version_of(path) or 'without a version', path))
    return 0


def unknown_option(name):
    """What is wrong with an option that no command stands before."""
    owners = {option.name: command.name for command in reversed(COMMANDS) for option in command.options}
    near = options.nearest(name, ['--version'] + sorted(owners))
    if near not in owners or near == '--help':
        return 'unknown option {}{}'.format(name, ', did you mean {}?'.format(near) if near else '')
    if near == name:
        return '{} is an option of {}: graphpool {} {} ...'.format(name, owners[near], owners[near], name)
    return 'unknown option {}, did you mean {} of graphpool {}?'.format(name, near, owners[near])


def command_for(words):
    """The command that the first words name, and the words after them. Raises UsageError."""
    for count in (2, 1):
        for command in COMMANDS:
            if command.name.split() == words[:count]:
                return command, words[count:]
    if words[0].startswith('-'):
        raise UsageError(unknown_option(words[0].partition('=')[0]))
    names = [command.name for command in COMMANDS if ' ' not in command.name]
    near = options.did_you_mean(words[0], names)
    raise UsageError('unknown command {}{}'.format(words[0], near or '; to run a program: graphpool run -- PROGRAM'))


def dispatch(words):
    if not words:
        raise UsageError('which command? There are {}'.format(
            ', '.join(command.name for command in COMMANDS if ' ' not in command.name)))
    if words[0] in ('--help', '-h', 'help'):
        sys.stdout.write(top_help())
        return 0
    if words[0] == '--version':
        return print_version()
    command, rest = command_for(words)
    try:
        if command.hands_over and not set(rest) & {'--help', '-h'}:
            return command.run(options.Words({}, rest))
        given = options.parse(command, rest)
        if given.help:
            sys.stdout.write(options.help_text(command))
            return 0
        return command.run(given)
    except UsageError as wrong:
        raise UsageError('{}: {}\nTry: graphpool {} --help'.format(command.name, wrong, command.name))


def nothing_more_on_stdout():
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main(words):
    sys.stdout, sys.stderr = Stream(sys.stdout, False), Stream(sys.stderr, True)
    try:
        code = dispatch(words)
        sys.stdout.flush()
        return code
    except UsageError as wrong:
        text = str(wrong) if '\nTry:' in str(wrong) else '{}\nTry: graphpool --help'.format(wrong)
        sys.stderr.write('graphpool: {}\n'.format(text))
        return WRONG_WORDS
    except reports.Unreadable as why:
        sys.stderr.write('graphpool: {}\n'.format(why))
        return 1
    except Missing as missing:
        sys.stderr.write('graphpool: {}\n'.format(missing))
        return OWN_FAULT
    except BrokenPipeError:  # the reader of a table has seen enough
        nothing_more_on_stdout()
        return 128 + signal.SIGPIPE
    except OSError as why:
        nothing_more_on_stdout()
        sys.stderr.write('graphpool: {}{}\n'.format('{}: '.format(why.filename) if why.filename else '', why.strerror or why))
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
