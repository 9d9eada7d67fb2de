"""page.py: reports as one page of HTML: no script, nothing from the network, light and dark, readable at the width of a phone.

Bars are boxes of HTML, whose text keeps its size on a narrow screen; only the courses over time are SVG. Every figure is also
there as text.
"""
from html import escape

from . import reasons, reports, tables

MOST_GRAPHS = 24
MOST_REASONS = 16
MOST_PROCESSES = 64
CHART, STRIP = (600, 140), (600, 20)  # the units of their own coordinates
LEAST_SAMPLES = 3
START = {'ms': 0, 'launches': 0}

# The order of the ways is fixed, so that each has its colour on every page.
STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --card: #f4f5f7; --text: #1c2128; --quiet: #57606a; --line: #d0d7de;
  --same: #0b7a75; --patch: #5b8c2a; --stage: #2f6fb3; --new_exec: #d08700; --one_shot: #b4532a; --native_update: #6e6a86; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --card: #1e232a; --text: #e6e9ee; --quiet: #a3adb8;
  --line: #39414b; --same: #3fb8af; --patch: #9bc95a; --stage: #6ea8e6; --new_exec: #f0b64a; --one_shot: #e58a5f;
  --native_update: #aaa5c8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 960px; background: var(--back); color: var(--text);
  font: 16px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 4px; } h2 { font-size: 1.1rem; margin: 28px 0 8px; } h3 { font-size: 1rem; margin: 12px 0 4px; }
p { margin: 4px 0; } .quiet { color: var(--quiet); font-size: .9rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 14px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; }
.tile b { display: block; font-size: 1.5rem; } .card { margin: 8px 0; }
.bar { display: flex; height: 16px; border-radius: 4px; overflow: hidden; background: var(--line); margin: 6px 0; }
.bar span { display: block; min-width: 2px; } figcaption { font-weight: 600; }
rect { shape-rendering: crispEdges; } svg.strip { height: 14px; background: var(--line); border-radius: 3px; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 4px 0 10px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.odd { color: var(--one_shot); font-weight: 600; }
svg { display: block; width: 100%; height: auto; } .ends { display: flex; flex-wrap: wrap;
  justify-content: space-between; gap: 0 12px; } .way { white-space: nowrap; }
""".strip()


def ways_style():
    return ''.join('.{0} {{ background: var(--{0}); fill: var(--{0}); }}\n'.format(way) for way in reports.WAYS)


def tile(figure, label):
    return '<div class="tile"><b>{}</b>{}</div>'.format(escape(figure), escape(label))


def tiles(found):
    captures = sum(report.captures for report in found)
    served = sum(report.captures_served for report in found)
    allocations = sum(report.allocations for report in found)
    kept = sum(report.allocations_served for report in found)
    return '<div class="tiles">{}</div>'.format(''.join([
        tile(tables.percent(served, captures), 'of {} captures served'.format(captures)),
        tile(tables.percent(kept, allocations), 'of {} allocations from kept memory'.format(allocations)),
        tile(str(sum(report.launches for report in found)), 'launches of graphs'),
        tile(tables.time_text(sum(report.saved_ms for report in found)), 'of host time saved, an estimate')]))


def legend():
    return '<p class="quiet">A capture is served when the program gets a graph that was there. An exec is what hipGraphInstantiate ' \
           'makes of a graph.</p><p class="quiet">Launches by{}</p>'.format(''.join(
        '<span class="way"><span class="key {}"></span>{}</span> '.format(way, escape(text)) for way, text in reports.WAYS.items()))


def graph_card(graph, samples):
    served, captures = reports.captures_of(graph)
    launches = reports.launches_of(graph)
    parts = ''.join('<span class="{}" style="flex-grow:{}" title="{} {}"></span>'.format(
        way, graph['launches'][way], escape(text), graph['launches'][way])
        for way, text in reports.WAYS.items() if graph['launches'].get(way))
    told = ''
    if graph.get('dropped'):
        known = reasons.explain(graph['dropped'])
        told += '<p class="quiet">Not kept any more: {} {}</p>'.format(escape(known.means), escape(known.advice))
    if graph.get('not_staged'):
        told += '<p class="quiet">Not staged: {}</p>'.format(escape(reasons.explain(graph['not_staged']).means))
    return ('<div class="card"><h3>{}. {}</h3><p>{} of {} captures served ({}), {} nodes, {} launches: {}</p>'
            '<div class="bar" role="img" aria-label="{}">{}</div>{}{}</div>').format(
                graph['graph'], escape(reports.name_of(graph)), served, captures, tables.percent(served, captures),
                graph['operations'], launches, escape(tables.how(graph)), escape(tables.how(graph)), parts,
                strip(graph, samples), told)


def why_list(report):
    found = report.reasons()
    if not found:
        return '<p>Nothing stood in the way. The first capture of each graph is always the program\'s own.</p>'
    most = found[0][0]
    items = []
    for count, reason, where, noun in found[:MOST_REASONS]:
        known = reasons.explain(reason)
        items.append('<div class="card"><h3>{}: {}</h3><div class="bar"><span class="one_shot" style="width:{:.1f}%"></span></div>'
                     '<p>{}</p><p class="quiet">{}{}</p></div>'.format(
                         reports.counted(count, noun), escape(reason), 100.0 * count / most, escape(known.means), escape(known.advice),
                         escape(' At ' + where + '.') if where else ''))
    if len(found) > MOST_REASONS:
        items.append('<p class="quiet">and {} reasons more: graphpool explain tells them all</p>'.format(len(found) - MOST_REASONS))
    return ''.join(items)


def chart(title, samples, value, text, color):
    """The course of one figure over the time of the process."""
    width, height = CHART
    left, right, top, bottom = 4, width - 4, 6, height - 4
    last, highest = max(samples[-1]['ms'], 1), max(max(value(each) for each in samples), 1e-9)
    points = ['{:.1f},{:.1f}'.format(left + (right - left) * each['ms'] / last, bottom - (bottom - top) * value(each) / highest)
              for each in samples]
    return ('<figure class="card" style="margin:8px 0"><figcaption>{title}</figcaption><svg viewBox="0 0 {w} {h}" role="img" '
            'aria-label="{title}: {end} at the end"><line x1="{l}" x2="{r}" y1="{b}" y2="{b}" stroke="var(--line)"/>'
            '<polyline points="{points}" fill="none" stroke="var(--{color})" stroke-width="2.5"/>'
            '</svg><p class="quiet ends"><span>0 to {time}</span><span>at most {high}, {end} at the end</span></p></figure>').format(
                title=escape(title), w=width, h=height, l=left, r=right, b=bottom, points=' '.join(points),
                color=color, high=escape(text(highest)), time=escape(tables.time_text(last)), end=escape(text(value(samples[-1]))))


def steps_of(samples):
    """The samples after the first, with what was done since the one before: launches, of these by way, and the mean time from one to
    the next. Samples without a launch are left out."""
    steps = []
    for before, after in zip(samples, samples[1:]):
        launches = after['launches'] - before['launches']
        if launches <= 0:
            continue
        ways = {way: after.get('launches_by_way', {}).get(way, 0) - before.get('launches_by_way', {}).get(way, 0)
                for way in reports.WAYS}
        steps.append({'ms': after['ms'], 'from_ms': before['ms'], 'ways': ways, 'step_ms': (after['ms'] - before['ms']) / launches})
    return steps


def boxes(steps, last, size):
    """What served the launches of each step, as shares: boxes one above the other, in the units of a chart of this size."""
    width, height = size
    parts = []
    for step in steps:
        every, top = sum(step['ways'].values()), 0.0
        left = round(width * step['from_ms'] / last, 1)  # of the units that are written, so that neighbours touch
        wide = round(width * step['ms'] / last, 1) - left
        for way, count in step['ways'].items():
            if count <= 0 or wide <= 0:
                continue
            parts.append('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'.format(
                way, left, top, wide, height * count / every))
            top += height * count / every
    return ''.join(parts)


def ways_chart(steps, last):
    """What served the launches over the time of the process, as shares."""
    parts = boxes(steps, last, CHART)
    if not parts:
        return ''
    return ('<figure class="card" style="margin:8px 0"><figcaption>What served the launches, as shares</figcaption>'
            '<svg viewBox="0 0 {w} {h}" role="img" aria-label="What served the launches over time">{parts}</svg>'
            '<p class="quiet ends"><span>0 to {time}</span><span>colours as above</span></p></figure>').format(
                w=CHART[0], h=CHART[1], parts=parts, time=escape(tables.time_text(last)))


def steps_of_graph(graph, samples):
    """The steps of the whole process in which this graph was launched, with its own launches by way."""
    course = graph.get('launches_over_time') or {'sample': []}
    return [{'ms': samples[place]['ms'], 'from_ms': samples[place - 1]['ms'] if place else 0,
             'ways': {way: course[way][i] for way in reports.WAYS if way in course}}
            for i, place in enumerate(course['sample']) if place < len(samples)]


def strip(graph, samples):
    """What served one graph's launches over the time of the process, as shares; empty where it was not launched."""
    if len(samples) < LEAST_SAMPLES:
        return ''
    last = max(samples[-1]['ms'], 1)
    parts = boxes(steps_of_graph(graph, samples), last, STRIP)
    if not parts:
        return ''
    return ('<svg class="strip" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="What served its launches over '
            'time">{parts}</svg><p class="quiet ends"><span>0 to {time}</span><span>over time, as shares</span></p>').format(
                w=STRIP[0], h=STRIP[1], parts=parts, time=escape(tables.time_text(last)))


def courses(report):
    samples = report.data.get('samples') or []
    if len(samples) < LEAST_SAMPLES:
        return '<p class="quiet">The process was too short, or report.every was not set: nothing is known of the time between.</p>'

    def served(sample):
        return 100.0 * sample['captures_served'] / sample['captures'] if sample['captures'] else 0

    steps = steps_of(samples)
    text = chart('Captures served so far', samples, served, '{:.1f} %'.format, 'same')
    if len(steps) > 1:
        text += chart('Time from one launch of a graph to the next, mean', steps, lambda each: each['step_ms'], tables.time_text, 'stage')
    return text + ways_chart(steps_of([START] + samples), max(samples[-1]['ms'], 1)) + chart(
        'Memory kept', samples, lambda each: each['kept_bytes'], tables.size, 'new_exec')


def compile_part(report):
    compiled = report.data.get('compile')
    if not compiled:
        return ''
    cells = [('permits', compiled.get('permits', 0)), ('compilations that waited', compiled.get('waited', 0)),
             ('time waited', tables.time_text(compiled.get('waited_ms', 0))),
             ('at once at most', compiled.get('peak_in_flight', 0)), ('went on over the limit', compiled.get('went_on', 0))]
    return '<h2>Compile permits</h2><div class="tiles">{}</div>'.format(
        ''.join(tile(str(figure), label) for label, figure in cells))


def policy_part(report):
    given = [each for each in report.data.get('policy') or [] if not each['key'].startswith('report.')]
    if not given:
        return '<p class="quiet">Default policy.</p>'
    rows = ''.join('<tr><td>{}</td><td>{}</td><td>{}</td></tr>'.format(*(escape(each[key]) for key in ('key', 'value', 'from')))
                   for each in given)
    return '<div class="wide"><table><tr><th>policy</th><th>value</th><th>from</th></tr>{}</table></div>'.format(rows)


def about(report):
    runtime, devices = report.data.get('runtime') or {}, report.data.get('devices') or []
    parts = ['libgraphpool {}'.format(report.data.get('version', 'before 0.1'))]
    if runtime.get('version'):
        parts.append('HIP {}'.format(runtime['version']))
    names = sorted({' '.join(filter(None, [each['name'], each.get('architecture')])) for each in devices})
    if names:
        parts.append('{} of: {}'.format(len(devices), ', '.join(names)))
    parts.append('written {}'.format(report.data.get('time', 'at an unknown time')))
    if not report.ended:
        parts.append(tables.state_text(report))
    command = ' '.join(report.data.get('command') or [])
    return '<p class="quiet">{}</p><p class="quiet">{}</p>'.format(escape(', '.join(parts)), escape(command))


def process_part(report, alone):
    head = '' if alone else '<h2>{} on {}, rank {}</h2>'.format(escape(report.name), escape(report.host), escape(str(report.rank)))
    samples = report.data.get('samples') or []
    shown = sorted(report.graphs, key=lambda graph: -reports.launches_of(graph))
    graphs = ''.join(graph_card(graph, samples) for graph in shown[:MOST_GRAPHS]) or '<p>No graph was captured.</p>'
    if len(shown) > MOST_GRAPHS:
        graphs += '<p class="quiet">and {} graphs more</p>'.format(len(shown) - MOST_GRAPHS)
    return ''.join([head, about(report), policy_part(report), '<h2>Graphs</h2>', legend() if report.graphs else '', graphs,
                    '<h2>Over time</h2>', courses(report), '<h2>What was not served, and why</h2>', why_list(report),
                    '<h2>Memory</h2><p>{}: {} kept at the end, {} at most. {} of {} allocations came from it.</p>'.format(
                        'Device memory that the program freed', tables.size(report.kept_bytes), tables.size(report.peak_kept_bytes),
                        report.allocations_served, report.allocations), compile_part(report)])


def ranks_part(found):
    marks = tables.outliers([100.0 * each.captures_served / each.captures if each.captures else 0 for each in found])
    rows = ''.join('<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class="{}">{}</td><td>{}</td><td>{}</td></tr>'.format(
        escape(each.host), escape(str(each.rank)), escape(each.name), escape(tables.time_text(each.elapsed_ms)),
        'odd' if odd else 'usual', escape(tables.percent(each.captures_served, each.captures)), each.launches,
        escape(tables.size(each.peak_kept_bytes))) for each, odd in zip(found, marks))
    return ('<h2>{} processes</h2><div class="wide"><table><tr><th>host</th><th>rank</th><th>process</th><th>time</th>'
            '<th>served</th><th>launches</th><th>kept at most</th></tr>{}</table></div>').format(len(found), rows)


def page(found):
    title = found[0].name if len(found) == 1 else '{} processes of {}'.format(len(found), found[0].program)
    parts = [process_part(found[0], True)] if len(found) == 1 else [ranks_part(found)] + [
        process_part(report, False) for report in found[:MOST_PROCESSES]]
    if len(found) > MOST_PROCESSES:
        parts.append('<p class="quiet">and {} processes more, in the table above</p>'.format(len(found) - MOST_PROCESSES))
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>graphpool: {0}</title>\n'
            '<style>\n{1}\n{2}</style>\n</head>\n<body>\n<h1>graphpool: {0}</h1>\n{3}\n{4}\n</body>\n</html>\n').format(
                escape(title), STYLE, ways_style(), tiles(found), '\n'.join(parts))
