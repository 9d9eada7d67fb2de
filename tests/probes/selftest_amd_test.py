"""selftest_amd_test.py SELFTEST LIST VERSION LIAR BUILD: the self-test on AMD's own runtime of this version (scripts/amd), on HSA
on the CPU of the build folder BUILD, with one fact falsified at a time by LIAR (liar.cpp): each is found and named, and the policy
that is written switches off what the engine's facts say of it. With nothing falsified all holds, and programs, compiled against
that runtime, print the same bytes natively and under the library; LIAR reaches the probes only, for the library finds the
runtime's functions by itself. Ends with 77 where the runtime is not there.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import answers

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / 'amd'))
from amd_runtimes import roots  # noqa: E402

# With an auditor the loader makes room for thread-local data before it knows of what is preloaded.
STATIC_TLS = 'glibc.rtld.optional_static_tls=65536'
# By the fact, a function that lies, what it returns, and after how many true calls.
LIES = {
    'operations_are_captured': 'hipLaunchHostFunc:0',
    'capture_names_its_last_node': 'hipStreamGetCaptureInfo_v2:0',
    'capture_id_stays': 'hipStreamGetCaptureInfo_v2:0:1',
    'empty_capture_ends': 'hipStreamEndCapture:901',
    'empty_forks_join': 'hipStreamWaitEvent:0',
    'capture_can_be_asked_for': 'hipStreamIsCapturing:0',
    'capture_modes_are_exchanged': 'hipThreadExchangeStreamCaptureMode:0',
    'relaxed_thread_may_query': 'hipEventQuery:900',
    'relaxed_thread_may_allocate': 'hipMalloc:900:1',
    'relaxed_thread_may_instantiate': 'hipGraphInstantiate:900',
    'set_kernel_reaches_launch': 'hipGraphExecKernelNodeSetParams:0',
    'set_fill_reaches_launch': 'hipGraphExecMemsetNodeSetParams:0',
    'set_copy_reaches_launch': 'hipGraphExecMemcpyNodeSetParams1D:0',
    'set_node_reaches_next_exec': 'hipGraphKernelNodeSetParams:0',
    'node_copies_arguments': 'hipGraphLaunch:0',
    'node_types_are_in_order': 'hipGraphNodeGetType:0',
    'captured_kernel_has_parameters': 'hipGraphKernelNodeGetParams:0',
    'captured_fill_has_parameters': 'hipGraphMemsetNodeGetParams:0',
    'edges_follow_streams': 'hipGraphGetEdges:0',
    'clone_finds_nodes': 'hipGraphNodeFindInClone:1',
    'exec_outlives_graph': 'hipGraphLaunch:0',
    'last_error_goes_by_version': 'hipPeekAtLastError:0',
    'device_type_goes_by_version': 'hipPointerGetAttributes:0',
    'driver_copies_go_by_version': 'hipDrvMemcpy3D:0',
    'driver_fills_go_by_version': 'hipDrvGraphAddMemsetNode:1',
    'free_waits_for_streams': 'hipFree:0',
    'strange_address_is_refused': 'hipMemGetAddressRange:0',
    'operands_are_bounded': 'hipMemset:0',
    'buffer_ids_count_up': 'hipPointerGetAttribute:0',
    'values_are_written': 'hipStreamWriteValue64:0',
    'parts_are_mapped': 'hipMemSetAccess:1',
}
PROGRAMS = ('update', 'recapture_if_moved', 'donated')


def compiled(root):
    for name in PROGRAMS:
        target = root.compile(TESTS / f'programs/{name}.cpp', root.build / 'tests/probes/amd' / root.version / name)
        yield {'name': name, 'command': [str(target)]}


class Tried:
    def __init__(self, selftest, listed, root, liar, folder):
        self.selftest, self.folder = selftest, pathlib.Path(folder)
        listed = json.loads(pathlib.Path(listed).read_text())
        self.relied = listed['relied']
        listed['programs'] = list(compiled(root))
        self.listed = self.folder / 'list.json'
        self.listed.write_text(json.dumps(listed))
        self.launcher = ' '.join(root.launcher(options=['--audit', liar]))

    def run(self, fact, lie):
        """Exit code, report, text of the policy."""
        report, policy = self.folder / f'{fact}.json', self.folder / f'{fact}.toml'
        parts = 'probes,programs' if fact == 'none' else 'probes'
        asked = [] if fact == 'none' else ['--ask', fact]
        done = subprocess.run([sys.executable, self.selftest, self.listed, '--launcher', self.launcher, '--only', parts, *asked,
                               '--probe-limit', '60', '--report', report, '--policy', policy],
                              env={**os.environ, 'LIE': lie, 'GLIBC_TUNABLES': STATIC_TLS}, capture_output=True, text=True, check=False)
        if not report.exists():
            return done.returncode, {'probes': {}, 'version': 0}, done.stdout + done.stderr
        return done.returncode, json.loads(report.read_text()), policy.read_text() if policy.exists() else ''


def wrong_of(fact, otherwise, code, told, text):
    """What is wrong about a run in which the fact was falsified; `otherwise`: lines of a policy that does without."""
    probe = told['probes'].get(fact, {'answer': 'not asked', 'seen': text})
    if probe['answer'] != 'fails':
        return f'{probe["answer"]}: {probe["seen"]}'
    if code != 1 or fact not in text or not all(line in text.splitlines() for line in otherwise):
        return f'exit code {code}, policy:\n{text}'
    tomllib.loads(text)
    return None


def main(selftest, listed, version, liar, build):
    there = roots(build, [version])
    if not there:
        print(f'{version}: scripts/amd has not unpacked it')
        return 77
    wrong, refuted, left = [], 0, []
    with tempfile.TemporaryDirectory() as folder:
        tried = Tried(selftest, listed, there[0], liar, folder)
        code, told, text = tried.run('none', '')
        if code != 0 or text or set(told.get('programs', {}).values()) != {'same'}:
            wrong.append(f'with nothing falsified: exit code {code}, {told.get("programs")}, {text}')
        relied = answers.relied(tried.relied, told['version'])
        for fact, lie in LIES.items():
            if relied[fact][0] != 'relied' or told['probes'].get(fact, {}).get('answer') != 'holds':
                left.append(fact)
                continue
            refuted += 1
            if what := wrong_of(fact, relied[fact][1], *tried.run(fact, lie)):
                wrong.append(f'{fact} ({lie}): {what}')
    print(f'{refuted} facts falsified one at a time; not relied on or not true of {version}: {", ".join(left) or "none"}')
    print('\n'.join(wrong))
    return 1 if wrong or refuted == 0 else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
