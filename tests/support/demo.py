"""demo.py LIST [--steps N] [--json FILE]: runs the test programs natively and under the library and shows what changed.

LIST is the JSON file that meson writes of all programs (tests/programs/meson.build). Shown are calls that reached the runtime,
by its journal, and whether both runs printed the same bytes. Times of the CPU runtime mean nothing, so there are none.
"""
import argparse
import json
import pathlib
import sys

import runs

# What is shown, as calls that reached the runtime: title, names.
COLUMNS = [
    ('malloc', ('hipMalloc',)),
    ('free', ('hipFree',)),
    ('capture', ('hipStreamBeginCapture',)),
    ('kernels', ('hipModuleLaunchKernel', 'hipLaunchKernel')),
    ('copies', ('hipMemcpy', 'hipMemcpyAsync', 'hipMemcpyDtoDAsync')),
    ('nodes', ('hipGraphAddKernelNode', 'hipGraphAddMemcpyNode1D', 'hipGraphAddMemsetNode', 'hipGraphAddHostNode',
               'hipGraphAddEmptyNode')),
    ('instantiate', ('hipGraphInstantiate', 'hipGraphInstantiateWithFlags')),
    ('update', ('hipGraphExecUpdate', 'hipGraphExecKernelNodeSetParams')),
    ('launch', ('hipGraphLaunch',)),
]
# Those that a step makes beside allocations and launches of graphs: captured or built, a graph needs them. A step without is as cheap
# as can be.
PREPARING = ('capture', 'kernels', 'copies', 'nodes', 'instantiate', 'update')
NAME_WIDTH, WIDTH = 26, 12


def checksum(output):
    """FNV-1a over what a run printed."""
    value = 14695981039346656037
    for byte in output:
        value = (value ^ byte) * 1099511628211 % 2**64
    return f'{value:016x}'


def one_way(entry, command, listed, preload, environment):
    done = runs.run(command, runtime=listed['runtime'], preload=preload, environment=environment)
    if done.code != 0:
        sys.exit(f'{entry["name"]}: ended with code {done.code}\n{done.stderr}')
    return {'output': checksum(done.stdout), 'calls': dict(sorted(done.calls.items()))}


def compare(entry, listed, steps):
    arguments = ['--steps', str(steps), *entry.get('arguments', [])]
    command = [entry['command'], *arguments]
    environment = {'GRAPHPOOL_POLICY': entry['policy']} if 'policy' in entry else {}
    native = one_way(entry, command, listed, (), {})
    library = one_way(entry, command, listed, (listed['library'],), environment)
    return {
        'program': entry['name'], 'arguments': arguments, 'policy': pathlib.Path(entry.get('policy', '')).name,
        'steps': steps, 'native': native, 'library': library, 'identical': native['output'] == library['output'],
    }


def calls(result, way, names):
    return sum(result[way]['calls'].get(name, 0) for name in names)


def cells(result, way):
    name = result['program'] + (f' ({result["policy"]})' if result['policy'] else '')
    counts = [str(calls(result, way, names)) for _, names in COLUMNS]
    return [name if way == 'native' else '', way] + counts + [('yes' if result['identical'] else 'NO') if way == 'library' else '']


def show(row):
    """One row, as soon as it is known."""
    print((f'{row[0]:<{NAME_WIDTH}} {row[1]:<7}' + ''.join(f'{text:>{WIDTH}}' for text in row[2:])).rstrip(), flush=True)


def verdict(results):
    """Two sentences, and whether both say what is hoped for."""
    equal = sum(result['identical'] for result in results)
    before, after = (sum(calls(result, way, names) for result in results for title, names in COLUMNS if title in PREPARING)
                     for way in ('native', 'library'))
    fell = f'fell from {before} to {after}' if after < before else f'did not fall: {before} natively, {after} under the library'
    return (f'{equal} of {len(results)} programs printed the same bytes under the library.\n'
            f'The calls from column capture to column update {fell}; what that saves is measured on a GPU, by graphpool compare.',
            equal == len(results) and after < before)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--json', metavar='FILE')
    options = parser.parse_args()
    listed = json.loads(pathlib.Path(options.list).read_text())
    print(f'Each program takes {options.steps} steps on the CPU runtime, natively and under the library. Shown are calls that reached the\n'
          'runtime, and whether both runs printed the same bytes.\n')
    show(['program', 'run', *(title for title, _ in COLUMNS), 'same'])
    results = []
    for entry in listed['programs']:
        results.append(compare(entry, listed, options.steps))
        show(cells(results[-1], 'native'))
        show(cells(results[-1], 'library'))
    text, good = verdict(results)
    print('\n' + text)
    if options.json:
        identical = all(result['identical'] for result in results)
        pathlib.Path(options.json).write_text(json.dumps({'programs': results, 'identical': identical}, indent=1) + '\n')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
