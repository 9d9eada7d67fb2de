"""explain.py: graphpool explain PATH [GRAPH]: graph by graph in plain words what was served, what stood in the way, and what
to do."""
import collections
import os
import sys
import textwrap

from . import reasons, reports, tables
from .options import Command, UsageError

MOST_MOVED = 6
MOST_SERVED = 20
SERVED = "  Nothing stands in its way. A graph's first capture is always recorded."
WIDTH = 100


def wrapped(text, indent='  '):
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)


def times(count):
    return 'once' if count == 1 else '{} times'.format(count)


def reason_lines(count, reason, where=''):
    known = reasons.explain(reason)
    often = '{}{}: '.format(times(count).capitalize(), ', at ' + where if where else '') if count else ''
    return wrapped(often + known.means) + wrapped('What to do: ' + known.advice, '    ')


def stop_lines(report, told):
    """Where captures that were like this graph became real."""
    where = reports.place_of(told)
    differs = reasons.DIFFERS.get(told.get('differs'), told.get('differs'))
    if differs:
        where += ' ({})'.format(differs)
    if report.goes_another_way(told):
        return wrapped('{}, at {}, another graph began like this one and goes another way. Nothing to do.'.format(
            times(told['count']).capitalize(), where))
    return reason_lines(told['count'], told['reason'], where)


def moved_lines(graph):
    """Which buffers move, told once for each place that allocates them."""
    by_place = {}
    for moved in graph['operands_moved']:
        rule = moved.get('rule', 'default')
        named = 'memory that no rule names' if rule == 'default' else 'buffers of rule {}'.format(rule)
        place = moved.get('allocated_by', '').split(' < ')[0] or named
        by_place.setdefault(place, []).append(moved)
    lines = []
    for place, all_moved in sorted(by_place.items(), key=lambda each: -sum(moved['times'] for moved in each[1])):
        kernels = sorted({moved.get('kernel', moved['kind']) for moved in all_moved})
        shown = ', '.join(kernels[:MOST_MOVED]) + (' and others' if len(kernels) > MOST_MOVED else '')
        lines += wrapped('{}: moved {}, {} of {}.'.format(
            place, times(max(moved['times'] for moved in all_moved)),
            '{} addresses'.format(len(all_moved)) if len(all_moved) > 1 else 'one address', shown), '    ')
    found, launches = graph['launches'].get('same', 0), reports.launches_of(graph)
    return lines + (wrapped('All the same, {} of {} launches were of an exec that had their addresses.'.format(found, launches))
                    if found else [])


def went_at_the_end(report, graph):
    """Whether the recording went with the program's modules at its end: the graph was not captured again after that. The report
    tells those that went in their order; of those that go together the newest is first."""
    def kind(each):
        return reports.name_of(each), each['operations']

    order = [each['graph'] for each in report.data['recordings'] if each.get('dropped')]
    later = [other for other in report.graphs if other['graph'] > graph['graph'] and kind(other) == kind(graph)]
    again = any(not other.get('dropped') or order.index(other['graph']) > order.index(graph['graph']) for other in later)
    return report.ended and graph.get('dropped') == 'a module with a kernel of it was unloaded' and not again


def graph_lines(report, graph):
    served, captures = reports.captures_of(graph)
    launches = reports.launches_of(graph)
    lines = ['graph {}: {}, {} operations'.format(graph['graph'], reports.name_of(graph), graph['operations'])]
    lines += wrapped('{} of {} captures were served ({}). {} launches: {}.'.format(
        served, captures, tables.percent(served, captures), launches, tables.how(graph)))
    verified = graph.get('captures_verified', 0)
    if verified:
        lines += wrapped('{} compared by verification, and so not served.'.format(
            '1 capture was' if verified == 1 else '{} captures were'.format(verified)))
    if graph.get('captured_by'):
        lines += wrapped('Captured by {}.'.format(graph['captured_by']))
    told = report.reasons_of(graph['graph'])
    for each in told:
        lines += stop_lines(report, each)
    at_the_end = went_at_the_end(report, graph)
    first_only = captures <= served + verified + 1 and all(map(report.goes_another_way, told))
    served_well = first_only and not graph.get('not_staged') and (not graph.get('dropped') or at_the_end)
    if graph.get('dropped') and not at_the_end:
        lines += wrapped('The recording was dropped.') + reason_lines(None, graph['dropped'])
    if graph.get('not_staged'):
        lines += wrapped('A rule says that it should be staged; it is not.') + reason_lines(None, graph['not_staged'])
    if graph['differences']:
        lines += wrapped('Verification found a difference {}. {}'.format(times(graph['differences']), reasons.TELL_US))
    if graph['operands_moved']:
        lines.append('  Its memory moves:')
        lines += moved_lines(graph)
    if served_well:
        lines.append(SERVED)
    return lines


def ranks_in_words(found):
    """'rank 3', 'ranks 0 to 7', 'ranks 0, 2'."""
    ranks = [str(rank) for rank in collections.OrderedDict((report.rank, None) for report in found)]
    numbers = [int(rank) for rank in ranks if rank.isdigit()]
    if len(ranks) > 2 and len(numbers) == len(ranks) and numbers == list(range(numbers[0], numbers[0] + len(ranks))):
        return 'ranks {} to {}'.format(ranks[0], ranks[-1])
    return 'rank{} {}'.format('s' if len(ranks) > 1 else '', ', '.join(ranks))


def head_lines(found):
    """Whom a text is about: one process, or several for which it is the same."""
    first = found[0]
    if len(found) == 1:
        state = '' if first.ended else ', ' + tables.state_text(first)
        return ['{} on {}, rank {} ({}){}'.format(first.name, first.host, first.rank, first.path, state), '']
    hosts = sorted({report.host for report in found})
    return wrapped('{} processes of {} on {}, {}: the same of each ({}, and others)'.format(
        len(found), first.program, hosts[0] if len(hosts) == 1 else '{} hosts'.format(len(hosts)), ranks_in_words(found),
        first.path), '') + ['']


def process_lines(report, only=None):
    lines, served = [], 0
    for graph in report.graphs:
        if only in (None, graph['graph']):
            found = graph_lines(report, graph)
            served += found[-1] == SERVED
            lines += found + [''] if only is not None or found[-1] != SERVED or served <= MOST_SERVED else []
    if only is not None:
        return lines
    if served > MOST_SERVED:
        lines += wrapped('{} more: nothing stands in their way. graphpool explain PATH GRAPH tells of one.'.format(
            reports.counted(served - MOST_SERVED, 'graph')), '') + ['']
    known = {graph['graph'] for graph in report.graphs}
    rest = [told for told in report.data['graphs']['materialisations'] if told.get('graph') not in known]
    if rest:
        lines.append('captures of no graph above, made real:')
        for told in rest:
            lines += stop_lines(report, told)
        lines.append('')
    for key, head in (('refusals', 'captures and graphs that were left alone:'),
                      ('left_to_runtime', 'execs and updates that were left to the runtime:')):
        if report.data['graphs'][key]:
            lines.append(head)
            for told in sorted(report.data['graphs'][key], key=lambda each: -each['count']):
                lines += reason_lines(told['count'], told['reason'])
            lines.append('')
    given_back = report.data['graphs'].get('execs_given_back', 0)
    if given_back:
        lines += wrapped('graph.exec_memory has no room for all execs: one was given back {}, and made again {} when it was '
                         'launched or updated. A larger limit saves that.'.format(
                             times(given_back), times(report.data['graphs']['execs_made_again'])), '') + ['']
    if not report.graphs and not report.captures:
        lines += wrapped('No graph was captured. The library serves captured graphs, graphs that are built node by node, and '
                         'memory; launches outside of graphs are as they were.', '') + ['']
        if report.data.get('devices') == []:
            lines += wrapped("No GPU is named by this machine's drivers: then HIP calls return hipErrorNoDevice or "
                             'hipErrorInvalidDevice.', '') + ['']
    return lines


def run(words):
    if not words.rest or len(words.rest) > 2:
        raise UsageError('which report? graphpool explain PATH [GRAPH]')
    only = None
    if len(words.rest) == 2:
        if not words.rest[1].isdigit() and os.path.exists(words.rest[1]):
            raise UsageError('one report or folder at a time; the second word is the number of a graph')
        if not words.rest[1].isdigit():
            raise UsageError('{}: a graph is named by its number in the table'.format(words.rest[1]))
        only = int(words.rest[1])
    found = reports.find(words.rest[:1])
    with_it = [report for report in found if only is None or any(graph['graph'] == only for graph in report.graphs)]
    if not with_it:
        numbers = sorted({graph['graph'] for report in found for graph in report.graphs})
        there = 'graph{} {}'.format('s' if len(numbers) > 1 else '', ', '.join(map(str, numbers))) if numbers else 'none'
        sys.stderr.write('graphpool: {} has no graph {}; it has {}\n'.format(
            os.path.basename(words.rest[0]) or words.rest[0], only, there))
        return 1
    alike = collections.OrderedDict()
    for report in with_it:
        alike.setdefault((report.program, report.ended or report.path, '\n'.join(process_lines(report, only))), []).append(report)
    for (_, _, text), same in alike.items():
        print('\n'.join(head_lines(same)) + '\n' + text)
    return 0


COMMAND = Command(
    'explain', 'PATH [GRAPH]', 'says in plain words what stood in the way of each graph, and what to do', run,
    details="""
    PATH: a report, or a folder of them. GRAPH: a graph's number in the table of graphpool report.""",
    examples=[('graphpool explain graphpool-reports', 'every graph of every process'),
              ('graphpool explain report.json 2', 'one graph')])
