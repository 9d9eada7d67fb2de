"""steps.py LIST [--json FILE] [--rounds N] [--steps N] [--layers N...] [--wide N...] [--tensors N...] [--reduces N...]: milliseconds a step of the
transformer, by size of its graph and by the way the step is run: natively (eager; captured and instantiated each step;
captured and updated), under the library (the same two captures, the program unchanged), and by hand (captured once, static
buffers). The same for parameters that ping-pong between two sets of buffers (donated), and for two devices that train together, with so many
all-reduces a step, driven by a thread each or by one thread (peer_training): only where two devices are. Settings: `each step` allocates,
runs, waits and frees; `ahead` keeps its buffers and waits after ten steps; `wide` has tensors of a size that occupies the
device. The ways alternate, round after round; each figure is the median over the steps after the warm-up of all rounds.
Says whether all ways printed the same bytes."""
import argparse
import json
import pathlib
import re
import statistics
import sys

import runs

WARM_UP = 0.4  # of a run's steps
SKIPPED = 77  # a program's code where it cannot run on this machine
AHEAD = ['--wait-every', '10']
WIDE = ['--heads', '4', '--width', '64', '--sequence', '128', '--vocabulary', '256']
PEERS = {'a thread each': ['--drive', 'threads'], 'one thread': [],
         'a thread each, wide': ['--drive', 'threads', '--count', str(1 << 18)]}

# Way: mode of the program, under the library.
TRANSFORMER = {'eager': ('eager', False), 'recapture': ('recapture', False), 'update': ('update', False),
               'library over recapture': ('recapture', True), 'library over update': ('update', True),
               'by hand': ('static', False)}
DONATED = {'recapture': ('recapture', False), 'library over recapture': ('recapture', True), 'by hand': ('static', False)}


def measure(listed, title, command, ways, steps, rounds, nodes):
    times = {way: [] for way in ways}
    outputs = {}
    for _ in range(rounds):
        for way, (mode, pooled) in ways.items():
            done = runs.run([*command, '--mode', mode, '--steps', str(steps)], runtime=listed['runtime'],
                            preload=(listed['library'],) if pooled else (), journal=False, times=True)
            if done.code == SKIPPED:
                print(f'\n{title}: {done.stdout.decode().strip()}', flush=True)
                return None
            if done.code != 0:
                sys.exit(f'{title}, {way}: code {done.code}\n{done.stderr}')
            times[way] += [ns / 1e6 for ns in done.times_ns[int(WARM_UP * len(done.times_ns)):]]
            outputs.setdefault(way, done.stdout)
    text = next(iter(outputs.values())).decode()
    found = re.search(r'operations a step (\d+)', text)
    same = len(set(outputs.values())) == 1
    result = {'program': title, 'nodes': int(found.group(1)) if found else nodes, 'steps': steps, 'rounds': rounds,
              'identical': same, 'ms': {}}
    for way, values in times.items():
        quartiles = statistics.quantiles(values, n=20)
        result['ms'][way] = {'median': statistics.median(values), 'p05': quartiles[0], 'p95': quartiles[-1]}
    hand = result['ms']['by hand']['median']
    print(f'\n{title}: {result["nodes"]} nodes, {steps} steps x {rounds}; bytes printed: {"identical" if same else "DIFFERENT"}')
    print(f'  {"way":<24} {"ms a step":>10} {"5 %":>9} {"95 %":>9} {"/ by hand":>10} {"/ native":>9}')
    for way, figure in result['ms'].items():
        native = result['ms'].get(way.removeprefix('library over '), figure)['median']
        print(f'  {way:<24} {figure["median"]:>10.4f} {figure["p05"]:>9.4f} {figure["p95"]:>9.4f} '
              f'{figure["median"] / hand:>10.3f} {figure["median"] / native:>9.3f}')
    sys.stdout.flush()
    return result


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=60)
    parser.add_argument('--tensors', type=int, nargs='*', default=[25, 250])
    parser.add_argument('--layers', type=int, nargs='*', default=[1, 12, 50])
    parser.add_argument('--wide', type=int, nargs='*', default=[12], metavar='LAYERS')
    parser.add_argument('--reduces', type=int, nargs='*', default=[5, 50], metavar='N')
    options = parser.parse_args()
    listed = runs.read_list(options.list)
    commands = {program['name']: program['command'] for program in listed['programs']}
    results = []
    ahead = [*AHEAD, '--buffers', 'kept']
    for setting, arguments in (('each step', []), ('ahead', ahead), ('wide, each step', WIDE), ('wide, ahead', WIDE + ahead)):
        for layers in options.layers if arguments[:2] != WIDE[:2] else options.wide:
            results.append(measure(listed, f'transformer, {layers} layers, {setting}',
                                   [*commands['transformer'], '--layers', str(layers), *arguments],
                                   TRANSFORMER, options.steps, options.rounds, None))
    for setting, arguments in (('each step', []), ('ahead', AHEAD)):
        for tensors in options.tensors:
            results.append(measure(listed, f'donated, {tensors} tensors, {setting}',
                                   [*commands['donated'], '--tensors', str(tensors), *arguments],
                                   DONATED, options.steps, options.rounds, 2 * tensors))
    for setting, arguments in PEERS.items():
        for reduces in options.reduces:
            results.append(measure(listed, f'two devices, {reduces} all-reduces, {setting}',
                                   [*commands['peer_training'], '--layers', str(reduces), *arguments],
                                   TRANSFORMER, options.steps, options.rounds, None))
    results = [result for result in results if result is not None]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + '\n')


if __name__ == '__main__':
    main()
