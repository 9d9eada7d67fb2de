"""selftest_test.py SELFTEST LIST RUNTIME CASE [KEY=VALUE...]: the self-test on the CPU runtime, with one fact falsified by its
switches: it is found, named, and switched off in the policy that is written, with which all programs are the same.
CASE: the probe that must be refuted, alone; or `none`; or `unasked`: no probe is asked, but programs differ, and so little of
the library is switched off that they do not; or `no_device`.
"""
import json
import os
import pathlib
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


def main(selftest, listed, runtime, case, *variables):
    environment = {**os.environ, **dict(variable.split('=', 1) for variable in variables)}
    with tempfile.TemporaryDirectory() as folder:
        report, policy = pathlib.Path(folder, 'report.json'), pathlib.Path(folder, 'policy.toml')
        parts = 'programs' if case == 'unasked' else 'probes,programs'
        done = subprocess.run([sys.executable, selftest, listed, '--runtime', runtime, '--only', parts,
                               '--report', report, '--policy', policy], env=environment, capture_output=True, text=True)
        print(done.stdout, done.stderr)
        if case == 'no_device':
            return done.returncode != 2 or 'no HIP device' not in done.stderr or report.exists() or policy.exists()
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
