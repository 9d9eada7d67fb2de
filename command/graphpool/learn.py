"""learn.py: graphpool policy learn REPORT...: a policy made of what reports have seen, with the reason of each line.

A lesson is a function of the reports. It yields Advice: a key, its value, and what was seen. Nothing is advised that the
reports give no reason for; `graphpool compare` tells whether it is worth it.
"""
import collections
import json
import re
import sys

from . import policy, reasons, reports, tables
from .options import Command, UsageError

# A setting or, with a rule's name as section, a key of a [[buffer]] rule. `why`: comment lines.
Advice = collections.namedtuple('Advice', 'section key value why')
MOST_RULES = 8
# Ways of serving a launch that cost more where addresses move.
COSTLY = ('patch', 'new_exec', 'one_shot', 'native_update')
UNITS = {'': 1, 'b': 1, 'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}


class InEffect:
    """The values that a report was made under."""

    def __init__(self, report, defaults):
        self.defaults, self.values = defaults, dict(defaults)
        self.given = report.data.get('policy', [])
        self.values.update((given['key'], given['value']) for given in self.given)

    def __getitem__(self, key):
        return self.values[key]

    def number(self, key):
        return int(self.values[key])

    def size(self, key):
        number, unit = re.match(r'(\d+) *(\w?)', self.values[key]).groups()
        return int(number) * UNITS[unit.lower()]


def size_text(count):
    """Bytes as a policy says them: a power of two, rounded up."""
    mebibytes = 1
    while mebibytes << 20 < count:
        mebibytes *= 2
    return '{}MiB'.format(mebibytes)


def title(report, graph):
    return 'Graph {} of {} ({})'.format(graph['graph'], report.name, reports.name_of(graph))


def more_execs(found):
    """Addresses that come back, but later than execs are kept."""
    needed, memory, why = 0, 0, []
    for report, values in found:
        for graph in report.graphs:
            returned = graph.get('longest_return', 0)
            if returned <= values.number('graph.variants'):
                continue
            why.append('{}: addresses came back after {} other sets of them; execs are kept for {}.'.format(
                title(report, graph), returned - 1, values['graph.variants']))
            # Sets that had an exec all the time were not counted: room for a quarter more.
            needed = max(needed, returned * 5 // 4)
            memory = max(memory, needed * graph['device_bytes'] // max(1, graph['variants']))
    if needed:
        yield Advice('graph', 'variants', needed, why)
        if memory > min(values.size('graph.variant_memory') for _, values in found):
            yield Advice('graph', 'variant_memory', size_text(memory), ['So many execs hold about {}.'.format(tables.size(memory))])


def more_recordings(found):
    """Recordings that went because there were too many, and were captured again."""
    for report, values in sorted(found, key=lambda each: -each[1].number('graph.recordings')):
        dropped = [graph for graph in report.graphs
                   if reasons.explain(graph.get('dropped') or '').advice == reasons.MORE_RECORDINGS]
        if dropped:
            yield Advice('graph', 'recordings', 2 * values.number('graph.recordings'), [
                '{}: recordings were dropped because there were more than {}. If that still happens, learn again.'.format(
                    report.name, values['graph.recordings'])])
            held = sum(graph['host_bytes'] for graph in report.graphs if not graph.get('dropped'))
            if 2 * held > values.size('graph.recording_memory'):
                yield Advice('graph', 'recording_memory', size_text(2 * held), [
                    'Those there were held {}.'.format(tables.size(held))])
            return


def more_memory(found):
    """Freed memory that went back because too much was kept."""
    for report, values in found:
        evicted = report.data['pool'].get('evicted', 0)
        if not evicted:
            continue
        limit = values['pool.limit']
        value = '{}%'.format(min(90, 2 * int(limit[:-1]))) if limit.endswith('%') else size_text(2 * values.size('pool.limit'))
        yield Advice('pool', 'limit', value, [
            '{}: {} freed allocations went back although they might have been used again: {} is the limit. Other processes do '
            'not get what is kept while it is used.'.format(report.name, evicted, limit)])
        return


def staged_buffers(found):
    """Buffers that move and never come back, by who allocates them: where copies cost less they go through slots."""
    rules = collections.OrderedDict()
    for report, _ in found:
        for graph in report.graphs:
            costly = sum(graph['launches'].get(way, 0) for way in COSTLY)
            if 2 * costly <= reports.launches_of(graph) or graph.get('longest_return', 0) or graph.get('not_staged'):
                continue
            for moved in graph['operands_moved']:
                place = moved.get('allocated_by', '').split(' < ')[0]
                rules.setdefault(place, '{}: {} of {} launches needed an exec to be patched or made, because memory moved that '
                                        '{} allocates.'.format(title(report, graph), costly, reports.launches_of(graph),
                                                               place or 'an unknown place'))
    if '' in rules:
        yield Advice(None, None, None, [rules.pop(''), 'Who allocates it was not noted: --set report.callsites=true does.'])
    for place in list(rules)[:MOST_RULES]:
        yield Advice(place, 'callsite', '*{}*'.format(re.sub(r'[][*?\\]', '?', place)), [rules[place]])
        yield Advice(place, 'stage', 'auto', ['Copied through slots where that is measured to cost less.'])


LESSONS = [more_memory, more_execs, more_recordings, staged_buffers]


def toml(advice, found):
    names = sorted({report.program for report, _ in found})
    lines = ['# Learnt by graphpool policy learn from {} report{} of {}.'.format(
        len(found), 's' if len(found) > 1 else '', ', '.join(names)),
             '# Is it worth it? graphpool compare --policy FILE -- PROGRAM']
    given = sorted({'{} = {}'.format(given['key'], given['value']) for _, values in found for given in values.given
                    if not given['key'].startswith(('log.', 'report.'))})
    if given:
        lines.append('# The reports were made under {}: this is not repeated here.'.format(', '.join(given)))
    seen = any(moved.get('allocated_by') for report, _ in found for graph in report.graphs for moved in graph['operands_moved'])
    asked = any(values['report.callsites'] != values.defaults['report.callsites'] for _, values in found)
    if not seen and not asked and not any('report.callsites' in why for each in advice for why in each.why):
        lines.append('# The reports do not say who allocates memory: --set report.callsites=true does.')
    if not advice:
        lines.append('# The reports give no reason to change anything.')
    section = None
    for each in advice:
        if each.section is not None and each.section != section:
            section = each.section
            lines += ['', '[{}]'.format(section) if section in ('pool', 'graph') else '[[buffer]]']
        lines += ['# ' + why for why in each.why]
        if each.key is not None:
            lines.append('{} = {}'.format(each.key, json.dumps(each.value)))
    return '\n'.join(lines) + '\n'


def learn(words):
    if not words.rest:
        raise UsageError('from which report? Name files, or a folder of them')
    found = reports.find(words.rest)
    defaults = {value['key']: value['default'] for value in policy.read({})[1]['values']}
    found = [(report, InEffect(report, defaults)) for report in found]
    sys.stdout.write(toml([advice for lesson in LESSONS for advice in lesson(found)], found))
    return 0


COMMAND = Command(
    'policy learn', 'REPORT...', 'prints a policy made of what reports have seen, with the reason of each line', learn,
    details="""
    REPORT: a report, or a folder of them. It looks for execs and recordings that were given up too early, for kept memory that went
    back too early, and for buffers that move and never come back. Make the reports with --set report.callsites=true: then it knows
    who allocates them. `graphpool compare` says whether the policy is worth it.""",
    examples=[('graphpool policy learn graphpool-reports > my.toml', 'from all reports in the folder'),
              ('graphpool compare --policy my.toml -- ./step', 'is it worth it?')])
