"""selftest.py: graphpool selftest: hands over to the tests of the source tree, which ask this machine's runtime and device."""
import os
import sys

from . import places
from .options import Command
from .places import Missing


def run(words):
    if not places.in_source_tree():
        raise Missing('the self-test needs the source tree and what was built there: run its scripts/graphpool selftest')
    listed = os.path.join(places.build_folder(), 'tests', 'probes', 'selftest.json')
    if not os.path.exists(listed):
        raise Missing('{} is not there: run scripts/build first'.format(listed))
    sys.stdout.flush()
    os.execvp('python3', ['python3', os.path.join(places.TOP, 'tests', 'probes', 'selftest.py'), listed] + words.rest)


COMMAND = Command(
    'selftest', '[--runtime FOLDER] [--only PART,...] [--report FILE] [--policy FILE]', 'asks this machine\'s HIP runtime and device what the library relies on', run,
    details="""
    Probes each fact in a process of its own, runs test programs natively and under the library, and writes selftest.json, to go
    with a bug report. Where something does not hold it writes selftest.toml, a policy that does without. It takes some minutes.
    The head of tests/probes/selftest.py tells of all its options.""",
    examples=[('graphpool selftest', 'on the runtime that programs find here'),
              ('graphpool selftest --runtime /opt/rocm/lib', 'on another one')],
    hands_over=True)
