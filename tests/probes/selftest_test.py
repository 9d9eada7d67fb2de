"""selftest_test.py SELFTEST LIST RUNTIME CASE [KEY=VALUE...]: the self-test on the CPU runtime, with one fact falsified by its
switches: it is found, named, and switched off in the policy that is written, with which all programs are the same.
CASE: the probe that must be refuted, alone; or `none`; or `unasked`: no probe is asked, but programs differ, and so little of
the library is switched off that they do not; or `no_device`; or `refused`: words that cannot be meant.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

# By the probe that is refuted, what the policy must say.
OTHERWISE = {
    'set_kernel_reaches_launch': {'graph': {'strategy': 'new_exec'}},
    'set_kernel_copies_arguments': {'graph': {'strategy': 'new_exec'}},
    'module_launch_is_captured': {'enabled': False},
    'clone_finds_nodes': {'graph': {'compare': False, 'reuse': False}},
    'relaxed_thread_may_query': {'enabled': False},
}


def contains(table, part):
    return all(contains(table.get(key, {}), value) if isinstance(value, dict) else table.get(key) == value
               for key, value in part.items())


def refused(selftest, listed, runtime):
    """What is wrong about words that it must refuse, and about the runtime that it must use."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        def said(*words, **variables):
            return subprocess.run([sys.executable, selftest, listed, *words], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, **variables})

        os.symlink(pathlib.Path(runtime, 'nothing'), pathlib.Path(folder, 'libamdhip64.so'))
        for words, text in ((['--ask', 'exec_outlives_grap'], '--ask: no probe exec_outlives_grap; did you mean exec_outlives_graph?'),
                            (['--ask', 'exec_outlives_graph', '--only', 'costs'], 'belongs to the part probes, which --only leaves out'),
                            (['--ask', 'xyz'], 'graphpool: selftest: --ask: no probe xyz; graphpool selftest names all'),
                            (['--runtime', '/nope'], 'no HIP runtime (libamdhip64.so) in /nope'),
                            (['--runtime', folder], f'no HIP runtime (libamdhip64.so) in {folder}')):
            done = said(*(words if '--runtime' in words else ['--runtime', runtime, *words]))
            if done.returncode != 2 or text not in done.stderr or os.path.exists(os.path.join(folder, 'selftest.json')):
                wrong.append(f'{words}: {done}')
        copy = pathlib.Path(folder, 'another')
        copy.mkdir()
        for file in pathlib.Path(runtime).glob('libamdhip64.so*'):
            if file.is_file():
                shutil.copy(file, copy)
        for words in (['--runtime', copy], []):
            done = said(*words, '--only', 'probes', '--ask', 'exec_outlives_graph', LD_LIBRARY_PATH='another')
            file = done.stdout.split('\n')[0].split()
            last = done.stdout.splitlines()[-1]
            if last != '1 of 1 probes answered, nothing that the library relies on fails':
                wrong.append(f'the last line: {last}')
            if done.returncode != 0 or file[0] != 'tested' or pathlib.Path(file[2]).parent != copy.resolve():
                wrong.append(f'another runtime, {words}: {done}')
    print('\n'.join(wrong))
    return bool(wrong)


def main(selftest, listed, runtime, case, *variables):
    if case == 'refused':
        return refused(selftest, listed, runtime)
    environment = {**os.environ, **dict(variable.split('=', 1) for variable in variables)}
    with tempfile.TemporaryDirectory() as folder:
        report, policy = pathlib.Path(folder, 'report.json'), pathlib.Path(folder, 'policy.toml')
        parts = 'programs' if case == 'unasked' else 'probes,programs'
        done = subprocess.run([sys.executable, selftest, listed, '--runtime', runtime, '--only', parts,
                               '--report', report, '--policy', policy], env=environment, capture_output=True, text=True)
        print(done.stdout, done.stderr)
        if case == 'no_device':
            told = f'no HIP device by {os.path.abspath(runtime)}/libamdhip64.so'
            return done.returncode != 2 or told not in done.stderr or report.exists() or policy.exists()
        told = json.loads(report.read_text())
        text = policy.read_text() if policy.exists() else ''
    refuted = {name for name, probe in told['probes'].items() if probe['answer'] == 'fails' and probe['relied_on']}
    lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith('REFUTED')]
    if case == 'none':
        return not (done.returncode == 0 and not refuted and not lines and not text and set(told['programs'].values()) == {'same'})
    wrong = []
    if done.returncode != 1:
        wrong.append(f'exit code {done.returncode}')
    if case == 'unasked':
        if 'prints other bytes' not in text or 'graph' not in tomllib.loads(text) or 'enabled' in tomllib.loads(text):
            wrong.append(f'the policy:\n{text}')
    else:
        if refuted != {case} or lines != [case]:
            wrong.append(f'refuted: {sorted(refuted)}')
        if case not in text or not contains(tomllib.loads(text), OTHERWISE[case]):
            wrong.append(f'the policy:\n{text}')
    if any(what != 'same' for what in told.get('programs_with_policy', {'none': 'run'}).values()):
        wrong.append(f'with the policy: {told.get("programs_with_policy")}')
    print('\n'.join(wrong))
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
