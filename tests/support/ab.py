"""ab.py LIST [--quick] [--check] [--json FILE] [NAME...]: runs benchmarks and prints their figures.

LIST is the JSON file that meson writes of all benchmarks (tests/bench/meson.build). Kinds of them:
  pair     a HIP program that prints one JSON object a figure; run natively and under the library alternately (A/B/A/B), in
           this one process tree; each figure gets the median and the spread over the runs of both, the difference of the
           medians, and the median of the ratios of runs that followed each other: machines change their speed meanwhile
  command  any command: its wall time, measured in the same way
  counts   a HIP program on the CPU runtime: how often it calls what the runtime is asked to do, for each call of `per` in
           the native run, by the runtime's journal; what was staged, by the library's report
  alone    a program that measures by itself; its figures are taken as they are
  ways     a HIP program run under the library with the variables of each of `ways` in turn; each figure gets median and
           spread by way, which of those in `forced` is best, and the ratio of the first way, the chosen one, to that
`against`: the first of the two runs is one under the library too, with these variables, in the place of a native run.
A benchmark may say how many `runs` it needs, and with --quick `quick_runs`, and take `arguments` or `quick_arguments`.
`limits`: by a word of a figure's name, how many times as long as natively it may take. --check: it ends with 1 where the
ratios of at least CHECK_RUNS runs say otherwise, and names the figures. The machine must be left alone.
--json: one JSON object a benchmark, one a line. --quick: few runs. What is being run is said on stderr.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import runs

RUNS = {'pair': 9, 'command': 201, 'counts': 1, 'alone': 1, 'ways': 5}
CHECK_RUNS = 31
TIMES = ('ns', 'us', 'ms')
QUICK_RUNS = {'pair': 3, 'command': 21, 'counts': 1, 'alone': 1, 'ways': 1}


def progress(text):
    if sys.stderr.isatty():
        print(f'\r\033[K{text}', end='', file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def wall_time_ms(command, preload, variables):
    """From the spawn to the end of a process, with nothing of ours in between."""
    environment = runs.clean_environment()
    if preload:
        environment['LD_PRELOAD'] = ':'.join(preload)
        environment.update(variables)
    started = time.perf_counter_ns()
    _, status = os.waitpid(os.posix_spawn(command[0], command, environment), 0)
    elapsed_ms = (time.perf_counter_ns() - started) / 1e6
    if status != 0:
        sys.exit(f'{command[0]}: ended with status {status}')
    return elapsed_ms


def run_program(benchmark, preload, counted, variables='library_environment', more=None):
    environment = dict(benchmark.get('environment', {}), **(more or {}))
    if preload:
        environment.update(benchmark.get(variables, {}))
    done = runs.run(benchmark['command'], runtime=benchmark.get('runtime'), preload=preload, environment=environment,
                    journal=counted, report=counted and bool(preload))
    if done.code != 0:
        sys.exit(f'{benchmark["name"]}: code {done.code}\n{done.stderr}')
    return done


def figures_of(benchmark, preload, variables='library_environment', more=None):
    """One run: {figure: (unit, value)}. more: environment variables."""
    if benchmark['kind'] == 'command':
        return {'wall time': ('ms', wall_time_ms(benchmark['command'], preload, benchmark.get(variables, {})))}
    if benchmark['kind'] == 'counts':
        return counts_of(benchmark, preload)
    lines = run_program(benchmark, preload, False, variables, more).stdout.decode().splitlines()
    figures = [json.loads(line) for line in lines if line.startswith('{')]
    return {figure['figure']: (figure['unit'], figure['value']) for figure in figures}


def counts_of(benchmark, preload):
    done = run_program(benchmark, preload, True)
    units = done.calls[benchmark['per']]
    figures = {f'{name} a {benchmark["per"]}': ('1', done.calls[name] / units) for name in benchmark['calls']}
    figures[f'submissions a {benchmark["per"]}'] = ('1', sum(done.calls[name] for name in benchmark['calls']) / units)
    figures[f'bytes staged a {benchmark["per"]}'] = ('B', done.report.get('bytes_staged', 0) / units)
    return figures


def spread(values):
    return {'median': statistics.median(values), 'lowest': min(values), 'highest': max(values)}


def measure_ways(benchmark, library, count):
    found = {way: [] for way in benchmark['ways']}
    for number in range(count):
        for way, variables in benchmark['ways'].items():
            progress(f'{benchmark["name"]} {number + 1}/{count} {way} ...')
            found[way].append(figures_of(benchmark, (library,), more=variables))
    chosen = next(iter(found))
    figures = {}
    for figure, (unit, _) in found[chosen][0].items():
        ways = {way: spread([run[figure][1] for run in of_way]) for way, of_way in found.items()}
        best = min(benchmark['forced'], key=lambda way: ways[way]['median'])
        figures[figure] = {'unit': unit, 'ways': ways, 'chosen': chosen, 'best': best,
                           'ratio': ways[chosen]['median'] / ways[best]['median']}
    return figures


def measure(benchmark, library, count):
    name = benchmark['name']
    if benchmark['kind'] == 'ways':
        return measure_ways(benchmark, library, count)
    if benchmark['kind'] == 'alone':
        progress(f'{name} ...')
        return {figure: {'unit': unit, 'value': value} for figure, (unit, value) in figures_of(benchmark, ()).items()}
    native, pooled = [], []
    for number in range(count):
        if benchmark['kind'] != 'command' or number == 0:
            progress(f'{name} {number + 1}/{count} ...')
        native.append(figures_of(benchmark, (library,), 'against') if 'against' in benchmark else figures_of(benchmark, ()))
        pooled.append(figures_of(benchmark, (library,)))
    figures = {}
    for figure, (unit, _) in native[0].items():
        before = spread([run[figure][1] for run in native])
        after = spread([run[figure][1] for run in pooled])
        neighbours = [(run[figure][1], other[figure][1]) for run, other in zip(native, pooled)]
        figures[figure] = {'unit': unit, 'native': before, 'library': after,
                           'difference': after['median'] - before['median'],
                           'ratio': None if any(first == 0 for first, _ in neighbours) else
                           statistics.median(second / first for first, second in neighbours)}
    return figures


def over_limit(benchmark, figures):
    """What is slower than its limit allows."""
    return [f'{benchmark["name"]}: {figure} takes {values["ratio"]:.3f} times as long as natively; the limit is {limit}'
            for word, limit in benchmark.get('limits', {}).items() for figure, values in figures.items()
            if word in figure and values['unit'] in TIMES and values.get('ratio') is not None and values['ratio'] > limit]


def show(name, figures):
    for figure, values in figures.items():
        if 'ways' in values:
            by_way = ' '.join(f'{way} {of_way["median"]:.1f}' for way, of_way in values['ways'].items())
            print(f'{name:<14} {figure:<44} {values["ratio"]:>7.3f} of {values["best"]:<8} {values["unit"]}: {by_way}')
        elif 'value' in values:
            print(f'{name:<14} {figure:<44} {values["value"]:>12.3f} {values["unit"]}')
        else:
            ratio = '' if values['ratio'] is None else f'{values["ratio"]:.3f}'
            print(f'{name:<14} {figure:<44} {values["native"]["median"]:>12.3f} {values["library"]["median"]:>12.3f} '
                  f'{values["difference"]:>+12.3f} {values["unit"]:<3} {ratio:>9}')
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('names', nargs='*')
    options = parser.parse_intermixed_args()
    listed = runs.read_list(options.list)
    known = [benchmark['name'] for benchmark in listed['benchmarks']]
    for name in options.names:
        if name not in known:
            sys.exit(f"no benchmark '{name}'; there are: {' '.join(known)}")
    quick = 'quick_' if options.quick else ''
    default_runs = QUICK_RUNS if options.quick else RUNS
    print(f'{"benchmark":<14} {"figure":<44} {"native":>12} {"library":>12} {"difference":>12} {"":<3} {"ratio":>9}', flush=True)
    results, slower = [], []
    for benchmark in listed['benchmarks']:
        if options.names and benchmark['name'] not in options.names:
            continue
        benchmark['command'] = benchmark['command'] + benchmark.get(quick + 'arguments', [])
        count = benchmark.get(quick + 'runs', default_runs[benchmark['kind']])
        if options.check and 'limits' in benchmark:
            count = max(count, CHECK_RUNS)
        figures = measure(benchmark, listed['library'], count)
        slower += over_limit(benchmark, figures) if options.check else []
        progress('')
        show(benchmark['name'], figures)
        results.append({'name': benchmark['name'], 'about': benchmark['about'], 'runs': count, 'figures': figures})
        if options.json:  # after each, so that a run broken off leaves what it has measured
            pathlib.Path(options.json).write_text(''.join(json.dumps(result) + '\n' for result in results))
    if slower:
        sys.exit('\n'.join(slower))


if __name__ == '__main__':
    main()
