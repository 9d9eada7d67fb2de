"""selftest.py: graphpool selftest: hands over to the self-test (tests/probes), which asks this machine's runtime and device."""
import os
import sys

from . import places
from .options import Command


def run(words):
    sys.stdout.flush()
    os.execvp('python3', ['python3', '-B'] + places.selftest() + words.rest)


COMMAND = Command(
    'selftest', '[--runtime FOLDER] [--only PART,...] [--report FILE] [--policy FILE]', 'asks this machine\'s HIP runtime and device what the library relies on', run,
    details="""
    Probes each fact in a process of its own, runs test programs natively and under the library, and writes selftest.json, to go
    with a bug report. Where something does not hold it writes selftest.toml, a policy that does without. It takes some minutes.
    Kernels are compiled by hipRTC; no compiler is needed. The runtime is the one in FOLDER. Without FOLDER it is looked for in
    LD_LIBRARY_PATH, ROCM_PATH, HIP_PATH, /opt/rocm*, and where the loader looks. The first line of the output names its file.
    In the source tree it is the one that the loader finds.

    PART: probes, costs (facts that times decide), programs, benchmarks. --ask PROBE,... asks only these, --limit SECONDS is what a
    program may take, --probe-limit SECONDS a probe, --launcher WORDS stand before each command.""",
    examples=[('graphpool selftest', 'on the runtime that programs find here'),
              ('graphpool selftest --runtime /opt/rocm/lib', 'on another one')],
    hands_over=True)
