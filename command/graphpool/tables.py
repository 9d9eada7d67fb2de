"""tables.py: figures as text: the table of one report, of several side by side, and how numbers are written."""
from . import reports

MOST_GRAPHS = 12
MOST_REASONS = 4
LONGEST_NAME = 40


def percent(part, of):
    return '{:.1f} %'.format(100.0 * part / of) if of else '-'


def size(count):
    for unit in ('B', 'KiB', 'MiB', 'GiB'):
        if count < 1024 or unit == 'GiB':
            return '{:.0f} {}'.format(count, unit) if unit == 'B' else '{:.1f} {}'.format(count, unit)
        count /= 1024.0


def time_text(ms):
    if ms is None:
        return '-'
    if abs(ms) < 1000:
        return '{:.1f} ms'.format(ms)
    return '{:.1f} s'.format(ms / 1000) if abs(ms) < 600000 else '{:.0f} min'.format(ms / 60000)


def shorten(text, most=LONGEST_NAME):
    return text if len(text) <= most else text[:most - 3] + '...'


def grid(head, rows, left=(0,)):
    """Columns under their heads; those in `left` are aligned to the left."""
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    lines = []
    for row in [head] + rows:
        cells = ['{:<{}}' if i in left else '{:>{}}' for i in range(len(row))]
        lines.append('  '.join(cell.format(text, width) for cell, text, width in zip(cells, row, widths)).rstrip())
    return lines


def how(graph):
    """Which execs the launches of a graph were of, most often first. '8 of 1 new exec': it was launched 8 times."""
    ways = [(graph['launches'].get(way, 0), way) for way in reports.WAYS]
    ways = sorted([each for each in ways if each[0]], reverse=True)
    words, made = dict(reports.WAYS), graph.get('instantiates') or 0
    if 1 < graph['launches'].get('new_exec', 0) >= made > 0:
        words['new_exec'] = reports.counted(made, 'new exec')
    return ', '.join('{} of {}'.format(count, words[way]) for count, way in ways[:3]) or '-'


def saved_line(report):
    """The host time that the library saved or cost, as far as it can estimate that."""
    origin = 'from costs measured here' if report.costs_measured == report.costs else (
        '{} of {} costs measured here, the others built in'.format(report.costs_measured, report.costs))
    if abs(report.saved_ms) < 0.05:
        return '  saved    next to no host time: an estimate ({})'.format(origin)
    head = '  saved    about {} of host time' if report.saved_ms > 0 else '  cost     about {} of host time more than it saved'
    return '{}: an estimate ({})'.format(head.format(time_text(abs(report.saved_ms))), origin)


def state_text(report, program=None):
    """What is known of a process whose report is not its last one. program: as for one()."""
    if program is not None and program.signal is not None and program.process == report.process:
        text = 'signal {} ended it before it could write more'.format(program.signal)
    elif report.still_runs():
        text = 'it still runs'
    else:
        text = 'the last that it wrote; it was ended, or runs elsewhere'
    return 'as of {}: {}'.format(report.data.get('time', 'some time before'), text)


def head_line(report, program=None):
    parts = [report.name]
    if str(report.rank) != '0':
        parts.append('rank {}'.format(report.rank))
    if report.elapsed_ms is not None:
        parts.append('{} since its first HIP call'.format(time_text(report.elapsed_ms)))
    runtime = report.data.get('runtime', {})
    if runtime.get('version'):
        parts.append('HIP {}'.format(runtime['version']))
    if not report.ended:
        parts.append(state_text(report, program))
    return ', '.join(parts)


def graph_rows(report):
    rows = []
    for graph in sorted(report.graphs, key=lambda each: -reports.launches_of(each))[:MOST_GRAPHS]:
        served, captures = reports.captures_of(graph)
        rows.append((str(graph['graph']), shorten(reports.name_of(graph)), str(graph['operations']), str(captures),
                     percent(served, captures), how(graph)))
    return rows


def verified_lines(report):
    """What verification compared; such captures and launches are not served."""
    captures, launches, differences = (sum(graph.get(key, 0) for graph in report.graphs)
                                       for key in ('captures_verified', 'launches_verified', 'differences'))
    if not captures and not launches:
        return []
    return ['  verified {} captures and {} launches; {}'.format(
        captures, launches, '{} differences'.format(differences) if differences else 'no difference')]


def one(report, program=None):
    """The lines about one process. program: how the program that was started ended, a launch.Ended."""
    lines = [head_line(report, program)]
    rows = graph_rows(report)
    if rows:
        lines += ['  ' + line for line in grid(('', 'graph', 'nodes', 'captures', 'served', 'launches'), rows, (0, 1, 5))]
        if len(report.graphs) > len(rows):
            lines.append('  and {} graphs more'.format(len(report.graphs) - len(rows)))
    elif report.captures == 0 and report.instantiates == 0:
        lines.append('  no graph was captured or instantiated in {} HIP calls: the library serves graphs and memory only'.format(
            report.calls))
        if report.data.get('devices') == []:
            lines.append("  no GPU is named by this machine's drivers")
    if report.captures:
        lines.append('  captures {} of {} served ({})'.format(
            report.captures_served, report.captures, percent(report.captures_served, report.captures)))
    lines += verified_lines(report)
    reasons = report.reasons()
    for count, reason, where, noun in reasons[:MOST_REASONS]:
        lines.append('  why not  {}: {}{}'.format(reports.counted(count, noun), reason, ' ({})'.format(where) if where else ''))
    if len(reasons) > MOST_REASONS:
        lines.append('           and {} reasons more'.format(len(reasons) - MOST_REASONS))
    if report.allocations:
        lines.append('  memory   {} of {} allocations served from kept memory; {} kept, {} at most'.format(
            report.allocations_served, report.allocations, size(report.kept_bytes), size(report.peak_kept_bytes)))
    lines += compile_lines(report.data.get('compile') or {})
    if rows or report.captures or report.allocations:
        lines.append(saved_line(report))
    return lines


def compile_lines(compiled):
    permits, waited = compiled.get('permits', 0), compiled.get('waited', 0)
    if not permits and not waited:
        return []
    took = '1 compilation took a permit' if permits == 1 else '{} compilations took permits'.format(permits)
    waits = '{} waited, {} in all'.format(waited, time_text(compiled.get('waited_ms', 0))) if waited else 'none waited'
    return ['  compile  {}; {}'.format(took, waits)]


def outliers(values, least=0.1):
    """Which of the numbers lie far from the others: more than this part of the median, and three times the usual distance."""
    ordered = sorted(values)
    median = ordered[len(ordered) // 2]
    distances = sorted(abs(value - median) for value in values)
    usual = distances[len(distances) // 2]
    return [len(values) > 2 and abs(value - median) > max(3 * usual, least * abs(median), 1e-9) for value in values]


def summed(all_reports):
    """A row a program of each rank: for runs of very many processes."""
    groups = {}
    for report in all_reports:
        groups.setdefault((report.host, str(report.rank), report.program), []).append(report)
    rows = []
    for (host, rank, program), found in groups.items():
        captures, served, launches, saved_ms = (sum(values) for values in zip(*(
            (each.captures, each.captures_served, each.launches, each.saved_ms) for each in found)))
        times = sorted(each.elapsed_ms or 0 for each in found)
        rows.append((host, rank, program, str(len(found)), time_text(times[len(times) // 2]), str(captures),
                     percent(served, captures), str(launches), size(max(each.peak_kept_bytes for each in found)), time_text(saved_ms)))
    return grid(('host', 'rank', 'program', 'processes', 'median time', 'captures', 'served', 'launches', 'kept at most', 'saved'),
                rows, (0, 2))


def many(all_reports):
    """A row a process; what differs from most others is marked."""
    columns = [[100.0 * each.captures_served / each.captures if each.captures else 0 for each in all_reports],
               [each.launches for each in all_reports], [each.peak_kept_bytes for each in all_reports]]
    marks = [outliers(column) for column in columns] + [outliers([each.elapsed_ms or 0 for each in all_reports], 0.5)]
    rows = []
    for i, report in enumerate(all_reports):
        cells = [percent(report.captures_served, report.captures), str(report.launches), size(report.peak_kept_bytes),
                 time_text(report.elapsed_ms)]
        cells = [cell + (' !' if marks[j][i] else '  ') for j, cell in enumerate(cells)]
        reasons = report.reasons()
        state = '' if report.ended else 'still runs; ' if report.still_runs() else 'wrote no end; '
        why = '{}: {}'.format(reports.counted(reasons[0][0], reasons[0][3]), shorten(reasons[0][1], 48)) if reasons else ''
        rows.append((report.host, str(report.rank), report.name, cells[3], str(len(report.graphs)), str(report.captures)) +
                    tuple(cells[:3]) + (time_text(report.saved_ms), (state + why).rstrip('; ')))
    lines = grid(('host', 'rank', 'process', 'time  ', 'graphs', 'captures', 'served  ', 'launches  ', 'kept at most  ', 'saved',
                  'most often not served'), rows, (0, 2, 10))
    if any(any(mark) for mark in marks):
        lines.append('! differs much from the others')
    return lines
