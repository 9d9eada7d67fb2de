"""options.py: the words after `graphpool`: a table of options for each command, which parses them and prints their help.

    Option('--policy', 'FILE', 'the policy file')      takes a value: --policy FILE, --policy=FILE
    Option('--quiet', None, 'no table at the end')     takes none

An unknown option is named with the nearest one there is. Nothing is abbreviated.
"""
import textwrap

WIDTH = 100


class UsageError(Exception):
    """What the user typed cannot be meant. The text says which word and what is allowed."""


class Option:
    def __init__(self, name, value, text, repeats=False):
        self.name = name
        self.value = value      # what stands for its value in the help; None: it takes none
        self.text = text
        self.repeats = repeats  # may be given several times: its value is a list

    @property
    def key(self):
        return self.name.lstrip('-').replace('-', '_')


class Command:
    """A word after `graphpool`, or after one of its commands."""

    def __init__(self, name, usage, summary, run, options=(), details='', examples=(), program=False,
                 hands_over=False):
        self.name = name          # 'run'; 'policy check'
        self.usage = usage        # what follows its name
        self.summary = summary    # one line
        self.run = run            # called with the Words; its result is the exit code
        self.options = list(options) + [HELP]
        self.details = details
        self.examples = examples  # pairs of a command line and what it does
        self.hands_over = hands_over  # all words are another program's, but --help
        self.program = program    # the first word that is no option begins a command line, whose options are its own


class Words:
    """What was given: an attribute an option, and the words that are none."""

    def __init__(self, values, rest):
        self.__dict__.update(values)
        self.rest = rest


HELP = Option('--help', None, 'prints this')


def distance(first, second):
    """How many letters must be changed, added, left out or exchanged with their neighbour."""
    before, row = None, list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        last, row, older = row, [i], before
        for j, b in enumerate(second, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b)))
            if older and i > 1 and j > 1 and a == second[j - 2] and first[i - 2] == b:
                row[j] = min(row[j], older[j - 2] + 1)
        before = last
    return row[-1]


def nearest(word, allowed):
    """The most alike of the allowed words, or None where none is alike."""
    ranked = sorted((distance(word, each), each) for each in allowed)
    if not ranked or ranked[0][0] > max(1, (len(word) + 1) // 3):
        starting = [each for each in allowed if len(word) > 2 and each.startswith(word)]
        return starting[0] if len(starting) == 1 else None
    return ranked[0][1]


def did_you_mean(word, allowed):
    near = nearest(word, allowed)
    return ', did you mean {}?'.format(near) if near else ''


def parse(command, words):
    """The Words of a command. Raises UsageError."""
    known = {option.name: option for option in command.options}
    values = {option.key: [] if option.repeats else None for option in command.options}
    rest = []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == '--':
            rest += words
            break
        if word == '-h':
            word = '--help'
        if not word.startswith('-') or word == '-':
            rest.append(word)
            if command.program:
                rest += words
                break
            continue
        name, equals, value = word.partition('=')
        if not name.startswith('--') and name not in known:
            name, equals, value = word[:2], word[2:], word[2:]
        option = known.get(name)
        if option is None:
            raise UsageError('unknown option {}{}'.format(word.partition('=')[0], did_you_mean(word.partition('=')[0], known)))
        if option.value is None:
            if equals:
                raise UsageError('{} takes no value'.format(name))
            value = True
        elif not equals:
            if not words or words[0] == '--':
                raise UsageError('{} needs a value: {} {}'.format(name, name, option.value))
            value = words.pop(0)
        if option.repeats:
            values[option.key].append(value)
        elif values[option.key] not in (None, value) and option.value is not None:
            raise UsageError('{} is given twice'.format(name))
        else:
            values[option.key] = value
    return Words(values, rest)


def help_text(command):
    lines = ['usage: graphpool {} {}'.format(command.name, command.usage).rstrip(), '']
    lines += textwrap.wrap(command.summary, WIDTH)
    for paragraph in filter(None, command.details.strip().split('\n\n')):
        lines.append('')
        lines += textwrap.wrap(' '.join(paragraph.split()), WIDTH)
    lines += ['', 'options:']
    width = max(len(label(option)) for option in command.options)
    for option in command.options:
        lines += textwrap.wrap(option.text, WIDTH, initial_indent='  {:<{}}  '.format(label(option), width),
                               subsequent_indent=' ' * (width + 4))
    lines += examples_text(command.examples)
    return '\n'.join(lines) + '\n'


def label(option):
    return '{} {}'.format(option.name, option.value) if option.value else option.name


def examples_text(examples):
    lines = ['', 'examples:'] if examples else []
    for line, what in examples:
        lines += ['  ' + line, '      ' + what]
    return lines
