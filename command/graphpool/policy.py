"""policy.py: graphpool policy check|show: the policy as the library reads it, without running anything.

What reads it is the library's own reader in a program of its own (../policy_tool.cpp); nothing is parsed here.
"""
import json
import os
import re
import subprocess
import sys

from . import options, places
from .options import Command, Option, UsageError

OPTIONS = [Option('--policy', 'FILE', 'the policy file; default: the one that GRAPHPOOL_POLICY names'),
           Option('--set', 'KEY=VALUE', 'one key, over file and environment; may be given several times', repeats=True)]


class Refused(Exception):
    """The policy cannot be used; `errors` say why, a line each."""

    def __init__(self, errors):
        Exception.__init__(self, '\n'.join(errors))
        self.errors = errors


class NoFile(UsageError):
    """The policy file that was named is not there."""


def read(environment):
    """(usable, what the reader says) for a process with this environment."""
    tool = places.policy_tool()
    environment = {name: value for name, value in environment.items() if name not in places.VARIABLES}
    done = subprocess.Popen([tool], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    text = done.communicate()[0]
    try:
        return done.returncode == 0, json.loads(text.decode('utf-8', 'replace'))
    except ValueError:
        raise places.Missing('{} ends with code {} and says nothing: it does not belong to this command'.format(
            tool, done.returncode))


def all_keys():
    """What the reader says of every key of the policy, by key."""
    return {value['key']: value for value in read({})[1]['values']}


def did_you_mean(word, keys):
    """The key that is most like the word, or whose last part or variable it is."""
    other_names = {value['variable']: key for key, value in keys.items()}
    ends = [key.rpartition('.')[2] for key in keys]
    other_names.update({key.rpartition('.')[2]: key for key in keys if ends.count(key.rpartition('.')[2]) == 1})
    near = options.nearest(word, list(keys) + list(other_names))
    return ', did you mean {}?'.format(other_names.get(near, near)) if near else ''


def with_settings(environment, policy, settings):
    """The environment with a policy file and single keys in it. Raises UsageError for a key there is not."""
    environment = dict(environment)
    if policy is not None:
        if not os.path.isfile(policy):
            raise NoFile('{}: {}'.format(policy, 'it is a folder' if os.path.isdir(policy) else 'no such file'))
        environment['GRAPHPOOL_POLICY'] = os.path.abspath(policy)
    if not settings:
        return environment
    keys = all_keys()
    for setting in settings:
        key, equals, value = setting.partition('=')
        if not equals:
            raise UsageError('--set {}: a key and its value, as in --set pool.limit=4GiB'.format(setting))
        if key not in keys:
            raise UsageError('--set {}: unknown key{}; graphpool policy show names them all'.format(key, did_you_mean(key, keys)))
        if not value and keys[key]['default']:
            raise UsageError('--set {}: which value? Allowed: {}'.format(setting, keys[key]['allowed']))
        environment[keys[key]['variable']] = value
    return environment


def read_with(environment, words):
    """As read(). What --set gave is named by that, not by the variable that hands it on."""
    usable, said = read(environment)
    said['without_effect'] = re.findall(r'^environment (GRAPHPOOL_\w+):', '\n'.join(said['warnings']), re.MULTILINE)
    said['told_by_processes'] = [text for text in said['warnings'] if not text.startswith('environment ')]
    keys = {setting.partition('=')[0] for setting in words.set}
    for value in said['values']:
        if value['key'] in keys:
            start, option = 'environment ' + value['variable'], '--set ' + value['key']
            value['from'] = option if value['from'] == start else value['from']
            for texts in (said['errors'], said['warnings']):
                texts[:] = [option + text[len(start):] if text.startswith(start + ':') else text for text in texts]
    return usable, said


def given(words, environment):
    """The environment of a program under these options, and what the reader says of it. Raises Refused."""
    environment = with_settings(environment, words.policy, words.set)
    usable, said = read_with(environment, words)
    if not usable:
        raise Refused(said['errors'] or ['the policy cannot be read: out of memory?'])
    return environment, said


def rules_in_words(said):
    rules = len({rule['key'].split(':')[0] for rule in said['rules']})
    return '{} buffer rule{}'.format(rules or 'no', '' if rules == 1 else 's')


def changed(said):
    """The values that are not the defaults."""
    return [value for value in said['values'] if value['value'] != value['default']]


def policy_file(words):
    """FILE may stand alone, too: graphpool policy check FILE."""
    if len(words.rest) > 1 or (words.rest and words.policy):
        raise UsageError('one policy file at a time')
    if words.rest:
        words.policy = words.rest[0]


def check(words):
    policy_file(words)
    environment = with_settings(os.environ, words.policy, words.set)
    usable, said = read_with(environment, words)
    for warning in said['warnings']:
        print('warning: {}'.format(warning))
    for error in said['errors']:
        print('error: {}'.format(error))
    named = environment.get('GRAPHPOOL_POLICY') or 'no policy file'
    if not usable:
        print('{}: not usable; a program would run as without the library'.format(named))
        return 1
    given_keys = len([value for value in said['values'] if value['from'] != 'default'])
    print('{}: ok, {} set, {} left at the default, {}'.format(
        named, given_keys, len(said['values']) - given_keys, rules_in_words(said)))
    return 0


def show(words):
    policy_file(words)
    try:
        said = given(words, os.environ)[1]
    except Refused as refused:
        for error in refused.errors:
            sys.stderr.write('graphpool: {}\n'.format(error))
        return 1
    rows = [value for value in said['values'] if not words.changed or value['value'] != value['default']]
    if words.json:
        print(json.dumps({'values': rows, 'rules': said['rules'], 'warnings': said['warnings']}, indent=1))
        return 0
    for warning in said['warnings']:
        sys.stderr.write('graphpool: warning: {}\n'.format(warning))
    rows = [(row['key'], row['value'] or '(empty)', row['from']) for row in rows]
    rows += [(rule['key'], rule['value'] or '(empty)', rule['from']) for rule in said['rules']]
    widths = [max([len(row[i]) for row in rows] + [0]) for i in (0, 1)]
    for key, value, place in rows:
        print('{:<{}}  {:<{}}  {}'.format(key, widths[0], value, min(widths[1], 40), place).rstrip())
    if not rows:
        print('every key has its default')
    return 0


def no_such(words):
    raise UsageError('which one? There are check, show and learn{}'.format(
        options.did_you_mean(words.rest[0], ['check', 'show', 'learn']) if words.rest else ''))


COMMAND = Command(
    'policy', 'check|show|learn [OPTION...] [FILE...]',
    'checks a policy, shows the values in effect and where each came from, or learns one from reports', no_such,
    details="""
    `graphpool policy check --help`, `graphpool policy show --help` and `graphpool policy learn --help` tell of each.""",
    examples=[('graphpool policy check my.toml', 'says what is wrong, with line and column'),
              ('graphpool policy show --changed', 'what differs from the defaults here'),
              ('graphpool policy learn graphpool-reports > my.toml', 'what reports give a reason for')])
CHECK = Command(
    'policy check', '[OPTION...] [FILE]', 'says what is wrong with a policy; nothing is run', check, OPTIONS,
    details="""
    File and environment are read as the library would read them. Exit code: 0 it can be used, 1 it cannot.""",
    examples=[('graphpool policy check my.toml', 'each mistake with line, column and what is allowed'),
              ('graphpool policy check --set graph.slots=0', 'one key')])
SHOW = Command(
    'policy show', '[OPTION...] [FILE]', 'the values in effect and where each came from', show,
    OPTIONS + [Option('--changed', None, 'only those that differ from the default'), Option('--json', None, 'as JSON')],
    examples=[('graphpool policy show', 'every key'),
              ('graphpool policy show --changed my.toml', 'what the file changes')])
