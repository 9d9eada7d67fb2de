"""on_amd.py: random programs on one of AMD's own runtimes (tests/amd): what they are started with and rely on there, and
which of their native ends are AMD's own.
"""
import pathlib
import random
import re
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'amd'))
from amd_runtimes import UNCONTRACTED, roots  # noqa: E402

DEFECTS = pathlib.Path(__file__).resolve().parents[1] / 'amd' / 'defects.toml'
# How a process ends whose kernels or copies touched what they may not, in checked mode (tests/runtimes/amd/README.md).
FINDINGS_EXIT = 86
# What the CPU runtime alone can be told: calls fail, and what is gone is refused.
CPU_ONLY = {'inject', 'gone'}
# How much is free is counted in AMD's own units, and execs take some. Memory of what was destroyed serves again.
ALWAYS = {'no_mem_info', 'handles_return'}


class OnAmd:
    """`checked`: every access of a kernel or copy is held against live memory."""

    def __init__(self, config, version, checked=False):
        build = pathlib.Path(config['interpret']).parents[2]
        found = roots(build, [version])
        if not found:
            raise FileNotFoundError(f'{version} is not in build-amd: scripts/amd brings it')
        self.version, self.root, self.checked = version, found[0], checked
        self.program = self.root.link('tests/property/interpret')
        listed = tomllib.loads(DEFECTS.read_text()).get('property', [])
        self.defects = [entry for entry in listed if version in entry['versions']]
        self.relies = {name for entry in self.defects for name in entry.get('features', [])}
        self.never = CPU_ONLY | {name for entry in self.defects for name in entry.get('without', [])}

    @property
    def environment(self):
        """Variables of every process."""
        avoided = {name: value for entry in self.defects for name, value in entry.get('environment', {}).items()}
        return dict(UNCONTRACTED, **avoided)

    def command(self, arguments):
        return self.root.command(self.program, ['--step-by-step', *arguments])  # so that its last step is known

    def settings(self, settings, number):
        """The settings of a batch on the CPU runtime as they are here."""
        pick = random.Random(f'amd {number}')
        runtime = dict(self.environment, HSACPU_DEVICES=settings.runtime.get('CPUHIP_DEVICES', '1'))
        if pick.random() < 0.2:
            runtime['HSACPU_DELAY'] = '200'
        if self.checked:
            runtime['HSACPU_CHECKED'] = '1'
        features = (set(settings.features) - self.never) | ALWAYS | self.relies
        return type(settings)(runtime, dict(settings.library), sorted(features))

    def replayed(self, settings):
        """The settings of a file as they are here."""
        features = (set(settings.features) - self.never) | ALWAYS | self.relies
        return type(settings)(dict(self.environment, **settings.runtime), dict(settings.library), sorted(features))

    @staticmethod
    def findings(errors):
        """What a process found that ended with FINDINGS_EXIT, without addresses and lanes: lines as they are compared."""
        told = re.findall(r'hsa on the cpu: checked: (.+?: .+)', errors)
        return sorted({re.sub(r' at 0x[0-9a-f]+|, lane \d+', '', line) for line in told})

    def defect(self, native):
        """The reason why a native run that did not end well is AMD's own fault; None where it is not known."""
        lines = native.rstrip().splitlines()
        for entry in self.defects:
            if 'ends' in entry and re.search(entry['ends'], lines[-1]) and re.search(entry.get('after', ''), '\n'.join(lines[-8:-1])):
                return entry['reason']
        return None
