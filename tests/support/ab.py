"""ab.py LIST [--quick] [--json FILE] [NAME...]: runs benchmarks and prints their figures.

LIST is the JSON file that meson writes of all benchmarks (tests/bench/meson.build). Kinds of them:
  pair     a HIP program that prints one JSON object a figure; run natively and under the library alternately (A/B/A/B), in
           this one process tree; each figure gets the median and the spread over the runs of both, the difference of the
           medians and their ratio
  command  any command: its wall time, measured in the same way
  alone    a program that measures by itself; its figures are taken as they are
--json: one JSON object a benchmark, one a line. --quick: few runs.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import runs

RUNS = {'pair': 9, 'command': 201, 'alone': 1}
QUICK_RUNS = {'pair': 3, 'command': 21, 'alone': 1}


def wall_time_ms(command, preload):
    """From the spawn to the end of a process, with nothing of ours in between."""
    environment = runs.clean_environment()
    if preload:
        environment['LD_PRELOAD'] = ':'.join(preload)
    started = time.perf_counter_ns()
    _, status = os.waitpid(os.posix_spawn(command[0], command, environment), 0)
    elapsed_ms = (time.perf_counter_ns() - started) / 1e6
    if status != 0:
        sys.exit(f'{command[0]}: ended with status {status}')
    return elapsed_ms


def figures_of(benchmark, preload):
    """One run: {figure: (unit, value)}."""
    if benchmark['kind'] == 'command':
        return {'wall time': ('ms', wall_time_ms(benchmark['command'], preload))}
    environment = dict(benchmark.get('environment', {}))
    if preload:
        environment.update(benchmark.get('library_environment', {}))
    done = runs.run(benchmark['command'], runtime=benchmark.get('runtime'), preload=preload, environment=environment,
                    journal=False)
    if done.code != 0:
        sys.exit(f'{benchmark["name"]}: code {done.code}\n{done.stderr}')
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith('{')]
    return {line['figure']: (line['unit'], line['value']) for line in lines}


def spread(values):
    return {'median': statistics.median(values), 'lowest': min(values), 'highest': max(values)}


def measure(benchmark, library, count):
    if benchmark['kind'] == 'alone':
        return {name: {'unit': unit, 'value': value} for name, (unit, value) in figures_of(benchmark, ()).items()}
    native, pooled = [], []
    for _ in range(count):
        native.append(figures_of(benchmark, ()))
        pooled.append(figures_of(benchmark, (library,)))
    figures = {}
    for name, (unit, _) in native[0].items():
        before = spread([run[name][1] for run in native])
        after = spread([run[name][1] for run in pooled])
        figures[name] = {'unit': unit, 'native': before, 'library': after, 'difference': after['median'] - before['median'],
                         'ratio': after['median'] / before['median'] if before['median'] else None}
    return figures


def show(name, figures):
    for figure, values in figures.items():
        if 'value' in values:
            print(f'{name:<14} {figure:<28} {values["value"]:>12.3f} {values["unit"]}')
        else:
            print(f'{name:<14} {figure:<28} {values["native"]["median"]:>12.3f} {values["library"]["median"]:>12.3f} '
                  f'{values["difference"]:>+12.3f} {values["unit"]:<3} {values["ratio"]:>9.3f}')
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    listed = json.loads(pathlib.Path(options.list).read_text())
    known = [benchmark['name'] for benchmark in listed['benchmarks']]
    for name in options.names:
        if name not in known:
            sys.exit(f"no benchmark '{name}'; there are: {' '.join(known)}")
    print(f'{"benchmark":<14} {"figure":<28} {"native":>12} {"library":>12} {"difference":>12} {"":<3} {"ratio":>9}')
    results = []
    for benchmark in listed['benchmarks']:
        if options.names and benchmark['name'] not in options.names:
            continue
        count = (QUICK_RUNS if options.quick else RUNS)[benchmark['kind']]
        figures = measure(benchmark, listed['library'], count)
        show(benchmark['name'], figures)
        results.append({'name': benchmark['name'], 'about': benchmark['about'], 'runs': count, 'figures': figures})
    if options.json:
        pathlib.Path(options.json).write_text(''.join(json.dumps(result) + '\n' for result in results))


if __name__ == '__main__':
    main()
