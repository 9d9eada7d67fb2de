"""selftest.py: graphpool selftest: hands over to the self-test (tests/probes), which asks this machine's runtime and device."""
import os
import sys

from . import places
from .options import Command, Option


def run(words):
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, '-B'] + places.selftest() + words.rest)


COMMAND = Command(
    'selftest', '[OPTION...]', 'asks this machine\'s HIP runtime and device what the library relies on', run,
    [Option('--runtime', 'FOLDER', 'the folder of the HIP runtime'),
     Option('--only', 'PART,...', 'these parts: probes, costs (facts that times decide), programs, benchmarks; default: all'),
     Option('--ask', 'PROBE,...', 'of the probes only these'),
     Option('--limit', 'SECONDS', 'a program may take so long; default: 120'),
     Option('--probe-limit', 'SECONDS', 'a probe may take so long; default: 20'),
     Option('--launcher', 'WORDS', 'words before each command, such as those of a launcher'),
     Option('--report', 'FILE', 'the file for a bug report; default: selftest.json'),
     Option('--policy', 'FILE', 'the policy where something does not hold; default: selftest.toml')],
    details="""
    Probes each fact in a process of its own, runs test programs natively and under the library, and writes selftest.json, to go
    with a bug report. Where something does not hold it writes selftest.toml, a policy that does without. It takes some minutes.
    Kernels are compiled by hipRTC; no compiler is needed. The runtime is the one in FOLDER. Without FOLDER it is looked for in
    LD_LIBRARY_PATH, ROCM_PATH, HIP_PATH, /opt/rocm*, and where the loader looks. The first line of the output names its file.
    In the source tree it is the one that the loader finds.""",
    examples=[('graphpool selftest', 'on the runtime that programs find here'),
              ('graphpool selftest --runtime /opt/rocm/lib', 'on another one')],
    hands_over=True)
