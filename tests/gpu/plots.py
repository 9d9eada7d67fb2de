"""plots.py RESULTS FOLDER: draws what a file of tests/bench/results holds, as SVG: the time of a step by the size of its
graph, one file for each setting; the cost of each way to serve moved operands; a launch fed through a slot, and remapping
against a slot, by size. Both axes are logarithmic."""
import json
import math
import pathlib
import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 70, 200, 40, 50
COLOURS = ['#1b6ca8', '#d1495b', '#2e8b57', '#edae49', '#6a4c93', '#555555', '#00798c', '#a44a3f']
UNITS = {'KiB': 2**10, 'MiB': 2**20, 'GiB': 2**30}


def ticks(low, high):
    """Powers of ten that enclose both."""
    return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def chart(title, x_label, y_label, series):
    """One SVG document; series: {name: [(x, y), ...]}, all values above 0."""
    points = [point for line in series.values() for point in line]
    x_ticks, y_ticks = ticks(*minmax(x for x, _ in points)), ticks(*minmax(y for _, y in points))

    def place(value, marks, start, length):
        low, high = math.log10(marks[0]), math.log10(marks[-1])
        return start + length * ((math.log10(value) - low) / (high - low) if high > low else 0.5)

    def at(x, y):
        return (place(x, x_ticks, LEFT, WIDTH - LEFT - RIGHT), place(y, y_ticks, HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>',
           f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>']
    for tick in x_ticks:
        x, _ = at(tick, y_ticks[0])
        out += [f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#dddddd"/>',
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>']
    for tick in y_ticks:
        _, y = at(x_ticks[0], tick)
        out += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>',
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>']
    for number, (name, line) in enumerate(series.items()):
        colour, y_key = COLOURS[number % len(COLOURS)], TOP + 10 + 18 * number
        drawn = [at(x, y) for x, y in sorted(line)]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="' +
                   ' '.join(f'{x:.1f},{y:.1f}' for x, y in drawn) + '"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in drawn]
        out += [f'<rect x="{WIDTH - RIGHT + 12}" y="{y_key - 9}" width="12" height="12" fill="{colour}"/>',
                f'<text x="{WIDTH - RIGHT + 30}" y="{y_key + 2}">{escape(name)}</text>']
    return '\n'.join([*out, '</svg>', ''])


def minmax(values):
    values = list(values)
    return min(values), max(values)


def size_of(figure):
    """Bytes of the size that a figure names."""
    number, unit = re.search(r'(\d+) ([KMG]iB)', figure).groups()
    return int(number) * UNITS[unit]


def of_figure(values, side):
    return values['value'] if 'value' in values else values[side]['median']


def steps(results):
    """{setting: chart}; a program's title is "program, size, setting"."""
    settings = {}
    for step in results.get('steps', []):
        program, _, setting = step['program'].split(', ', 2)
        if program == 'transformer':
            settings.setdefault(setting, []).append(step)
    for setting, runs in settings.items():
        series = {way: [(run['nodes'], run['ms'][way]['median']) for run in runs] for way in runs[0]['ms']}
        yield f'steps-{setting.replace(", ", "-").replace(" ", "-")}', chart(
            f'A step of a transformer, {setting}', 'nodes of its graph', 'ms a step', series)


def sizes(results):
    """Figures named by a size."""
    figures = {benchmark['name']: benchmark['figures'] for benchmark in results.get('benchmarks', [])}
    series = {}
    for figure, values in figures.get('staged_launch', {}).items():
        name = figure.split(': ')[1]
        if name == 'launch':
            series.setdefault('launch, not staged', []).append((size_of(figure) / 2**20, of_figure(values, 'native')))
            series.setdefault('launch, staged', []).append((size_of(figure) / 2**20, of_figure(values, 'library')))
        else:
            series.setdefault(name, []).append((size_of(figure) / 2**20, of_figure(values, 'native')))
    if series:
        yield 'staging', chart('A launch that feeds one buffer through a slot', 'MiB', 'us a launch', series)
    series = {}
    for figure, values in figures.get('remap', {}).items():
        devices, rest = figure.split(', ')
        series.setdefault(f'{rest.split(": ")[1]}, {devices}', []).append((size_of(rest) / 2**20, of_figure(values, 'native')))
    if series:
        yield 'remap', chart('Other memory under an address', 'MiB', 'us a cycle', series)


def ways(results):
    """The benchmark `ways`: figures "N kernels, M differ, new, 4 KiB: step", each with the ways."""
    series = {}
    for benchmark in results.get('benchmarks', []):
        for figure, values in benchmark['figures'].items() if benchmark['name'] == 'ways' else ():
            differing = re.fullmatch(r'100 kernels, (\d+) differ, new, 4 KiB: step', figure)
            for way, of_way in values['ways'].items() if differing else ():
                series.setdefault(way, []).append((int(differing.group(1)), of_way['median']))
    if series:
        yield 'ways', chart('A step of 100 kernels by the way its binding is served', 'kernels that differ', 'us a step', series)


def main(results, folder):
    results = json.loads(pathlib.Path(results).read_text())
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for part in (steps, ways, sizes):
        for name, drawn in part(results):
            (folder / f'{name}.svg').write_text(drawn)
            print(folder / f'{name}.svg')


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
