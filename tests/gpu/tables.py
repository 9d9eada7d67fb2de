"""tables.py RESULTS: a file of tests/bench/results as tables, in Markdown on stdout."""
import json
import pathlib
import sys


def table(head, rows):
    print('| ' + ' | '.join(head) + ' |')
    print('| --- |' + ' ---: |' * (len(head) - 1))
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')
    print()


def number(value):
    return f'{value:.0f}' if value >= 1000 else f'{value:.3g}' if value >= 1 else f'{value:.3f}'


def steps(results):
    print('## Milliseconds a step\n\n`each step`: allocates, runs, waits, frees; `ahead`: keeps its buffers and waits after ten '
          'steps; `wide`: tensors\nof a size that occupies the device. By hand: captured once, static buffers. The last column: the '
          'better of the two by hand.\n')
    ways = ['eager', 'recapture', 'update', 'library over recapture', 'library over update', 'by hand']
    rows = []
    for step in results['steps']:
        times = {way: values['median'] for way, values in step['ms'].items()}
        best = min(time for way, time in times.items() if way.startswith('library'))
        rows.append([step['program'] + ('' if step['identical'] else ' (**bytes differ**)'), str(step['nodes']),
                     *(f'{times[way]:.3f}' if way in times else '' for way in ways), f'{best / times["by hand"]:.3f}'])
    table(['program', 'nodes', *ways, 'library / by hand'], rows)


def benchmark(results):
    print(f'## {results["name"]}\n\n{results["about"][0].upper()}{results["about"][1:]}.\n')
    rows = []
    figures = results['figures']
    if all('ways' in values for values in figures.values()):
        names = list(next(iter(figures.values()))['ways'])
        print('Medians; the last column has the lowest of all runs, which a processor that changes its speed between runs moves '
              'less.\n')
        for figure, values in figures.items():
            ways, chosen = values['ways'], values['chosen']
            lowest = ways[chosen]['lowest'] / min(ways[way]['lowest'] for way in names if way != chosen)
            rows.append([figure, *(number(ways[way]['median']) for way in names), values['best'], f'{values["ratio"]:.3f}',
                         f'{lowest:.3f}'])
        table(['figure', *names, 'best', 'chosen / best', 'lowest'], rows)
        return
    for figure, values in results['figures'].items():
        if 'value' in values:
            rows.append([figure, number(values['value']), values['unit']])
        elif not figure.endswith(': operation') and 'allocations' not in figure:
            ratio = '' if values['ratio'] is None else f'{values["ratio"]:.3f}'
            rows.append([figure, number(values['native']['median']), number(values['library']['median']), values['unit'], ratio])
    if rows:
        table(['figure', 'value', 'unit'] if len(rows[0]) == 3 else ['figure', 'native', 'library', 'unit', 'ratio'], rows)


def programs(results):
    print('## Programs\n')
    runs = [run for program in results['programs'] for run in program['same'].values()]
    print(f'{len(results["programs"])} programs, natively and under {len(results["programs"][0]["same"])} policies: '
          f'{sum(runs)} of {len(runs)} runs printed the same bytes.\n')
    for program in results['programs']:
        differs = [name for name, same in program['same'].items() if not same]
        if differs:
            print(f'- `{program["name"]}` differs under {", ".join(differs)}.')


def main(results):
    results = json.loads(pathlib.Path(results).read_text())
    if 'driver' in results:
        on = f'driver {results["driver"]}, commit {results["commit"]}, through `tests/runtimes/cuda`'
    else:  # scripts/bench --runtime amd
        on = f'{results["cores"]} cores, no GPU, commit {results["commit"]}, over `tests/runtimes/amd`'
    print(f'# {results["device"]}\n\n{results["date"]}, {on}; made by\n`tests/gpu/tables.py` from the JSON file beside this one.\n')
    if 'steps' in results:
        steps(results)
    for each in results.get('benchmarks', []):
        benchmark(each)
    if 'programs' in results:
        programs(results)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
