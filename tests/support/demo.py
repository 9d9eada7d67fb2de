"""demo.py LIST [--steps N] [--json FILE]: runs the test programs natively and under the library and shows what changed.

LIST is the JSON file that meson writes of all programs (tests/programs/meson.build). Each way runs twice: once with the
runtime's journal, which counts the calls that reached it, once without, which gives the times.
"""
import argparse
import json
import pathlib
import statistics
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


def checksum(output):
    """FNV-1a over what a run printed."""
    value = 14695981039346656037
    for byte in output:
        value = (value ^ byte) * 1099511628211 % 2**64
    return f'{value:016x}'


def one_way(entry, command, listed, preload, environment):
    counted = runs.run(command, runtime=listed['runtime'], preload=preload, environment=environment, report=True)
    timed = runs.run(command, runtime=listed['runtime'], preload=preload, environment=environment, journal=False, times=True)
    for done in (counted, timed):
        if done.code != 0:
            sys.exit(f'{entry["name"]}: ended with code {done.code}\n{done.stderr}')
    return {
        'output': checksum(counted.stdout),
        'same_output_again': counted.stdout == timed.stdout,
        'calls': dict(sorted(counted.calls.items())),
        'step_ms': statistics.median(timed.times_ns) / 1e6 if timed.times_ns else None,
        'bytes_staged': counted.report.get('bytes_staged', 0),
        'slots': counted.report.get('slots', 0),
    }


def compare(entry, listed, steps):
    arguments = ['--steps', str(steps), *entry.get('arguments', [])]
    command = [entry['command'], *arguments]
    environment = {'GRAPHPOOL_POLICY': entry['policy']} if 'policy' in entry else {}
    native = one_way(entry, command, listed, (), {})
    library = one_way(entry, command, listed, (listed['library'],), environment)
    return {
        'program': entry['name'], 'arguments': arguments, 'policy': pathlib.Path(entry.get('policy', '')).name,
        'steps': steps, 'native': native, 'library': library,
        'identical': native['output'] == library['output'] and native['same_output_again'] and library['same_output_again'],
    }


def cells(result, way):
    run = result[way]
    first = [result['program'] + (f' ({result["policy"]})' if result['policy'] else ''), way] if way == 'native' else ['', way]
    counts = [str(sum(run['calls'].get(name, 0) for name in names)) for _, names in COLUMNS]
    step = f'{run["step_ms"]:.3f}' if run['step_ms'] is not None else '-'
    last = [str(run['bytes_staged']), str(run['slots']), ('yes' if result['identical'] else 'NO')] if way == 'library' else []
    return first + [step] + counts + last


def show(rows):
    widths = [max(len(row[i]) if i < len(row) else 0 for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print('  '.join(text.ljust(width) if i < 2 else text.rjust(width)
                        for i, (text, width) in enumerate(zip(row, widths))).rstrip())


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--json', metavar='FILE')
    options = parser.parse_args()
    listed = json.loads(pathlib.Path(options.list).read_text())
    print(f'Each program takes {options.steps} steps on the CPU runtime, natively and under the library. Columns: milliseconds\n'
          'a step; calls that reached the runtime; bytes copied to and from slots; slots; whether both printed the same.\n')
    rows = [['program', 'run', 'ms/step', *(title for title, _ in COLUMNS), 'staged', 'slots', 'identical']]
    results = []
    for entry in listed['programs']:
        result = compare(entry, listed, options.steps)
        results.append(result)
        rows += [cells(result, 'native'), cells(result, 'library')]
    show(rows)
    identical = all(result['identical'] for result in results)
    print('\nidentical: ' + ('all' if identical else 'NOT all'))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({'programs': results, 'identical': identical}, indent=1) + '\n')
    return 0 if identical else 1


if __name__ == '__main__':
    sys.exit(main())
