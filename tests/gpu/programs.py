"""programs.py LIST [--json FILE] [NAME...]: runs each program of the list on the GPU, natively twice and under the library
with every policy, and says whether all printed the same bytes and ended with the same code; shows the first differences. A program that ends with 77
cannot run on this machine, and is left out."""
import argparse
import difflib
import json
import pathlib
import sys

import runs


def policies(listed):
    """[(name, environment)]."""
    found = []
    words = iter(listed['policies'])
    for word in words:
        if word == '--policy':
            found.append((next(words), {}))
        else:
            key, value = word.split('=', 1)
            found[-1][1][key] = value
    return found


def differences(native, pooled):
    lines = difflib.unified_diff(native.stdout.decode(errors='replace').splitlines(),
                                 pooled.stdout.decode(errors='replace').splitlines(), 'native', 'library', lineterm='', n=0)
    return [*list(lines)[:24], *pooled.stderr.splitlines()[-12:]]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('list')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('names', nargs='*')
    options = parser.parse_intermixed_args()
    listed = runs.read_list(options.list)
    results = []
    for program in listed['programs']:
        if options.names and program['name'] not in options.names:
            continue

        def run(preload, environment):
            return runs.run(program['command'], runtime=program.get('runtime', listed['runtime']), preload=preload, environment=environment,
                            journal=False)
        native = run((), {})
        if native.code == 77:
            print(f'{program["name"]:<24} skipped: {native.stdout.decode(errors="replace").strip()}', flush=True)
            continue
        again = run((), {})
        line = {'name': program['name'], 'native_code': native.code, 'native_repeats': native.stdout == again.stdout,
                'same': {}}
        notes = []
        if native.code != 0 or not native.stdout:
            notes += [f'  native: code {native.code}', *('    ' + text for text in native.stderr.splitlines()[-12:])]
        if not line['native_repeats']:
            notes += ['  native runs differ', *('    ' + text for text in differences(native, again))]
        for name, environment in policies(listed):
            pooled = run((listed['library'],), environment)
            line['same'][name] = (pooled.code, pooled.stdout) == (native.code, native.stdout)
            if not line['same'][name]:
                notes += [f'  {name}: code {pooled.code}', *('    ' + text for text in differences(native, pooled))]
            elif pooled.stderr and pooled.stderr != native.stderr:
                notes += [f'  {name}: {text}' for text in pooled.stderr.splitlines()[:4]]
        results.append(line)
        print(f'{program["name"]:<24} native {native.code}{"" if line["native_repeats"] else " (differs from run to run)"}  ' +
              ' '.join(f'{name} {"same" if same else "DIFFERENT"}' for name, same in line['same'].items()))
        print(*notes, sep='\n', end='\n' if notes else '', flush=True)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + '\n')
    return 0 if all(line['native_code'] == 0 and all(line['same'].values()) for line in results) else 1


if __name__ == '__main__':
    sys.exit(main())
