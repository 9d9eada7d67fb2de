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
from pack import Pack  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DEFECTS = HERE.parent / 'amd' / 'defects.toml'
INTERPRET = 'tests/property/interpret'  # in the build folder
# How a process ends whose kernels or copies touched what they may not, in checked mode (tests/runtimes/amd/README.md).
FINDINGS_EXIT = 86
# What the CPU runtime alone can be told: calls fail, and what is gone is refused.
CPU_ONLY = {'inject', 'gone'}
# How much is free is counted in AMD's own units, and execs take some. Memory of what was destroyed serves again.
ALWAYS = {'no_mem_info', 'handles_return'}


class OnAmd:
    """`checked`: every access of a kernel or copy is held against live memory."""

    def __init__(self, config, version, checked=False):
        self.checked = checked
        if 'launcher' in config:  # of a pack
            if version != config['version']:
                raise FileNotFoundError(f"{version} is not in this pack, which holds {config['version']}")
            self.start = [*config['launcher'], config['interpret']]
        else:
            root = self.root_of(config, version)
            self.start = root.command(root.link(INTERPRET))
        listed = tomllib.loads(DEFECTS.read_text()).get('property', [])
        self.defects = [entry for entry in listed if version in entry['versions']]
        self.relies = {name for entry in self.defects for name in entry.get('features', [])}
        self.never = CPU_ONLY | {name for entry in self.defects for name in entry.get('without', [])}

    @staticmethod
    def root_of(config, version):
        found = roots(pathlib.Path(config['interpret']).parents[2], [version])
        if not found:
            raise FileNotFoundError(f'{version} is not in build-amd: scripts/amd brings it')
        return found[0]

    @classmethod
    def pack(cls, config, version, folder):
        """Copies what random programs on this version need into a folder that runs elsewhere, with the same options: there
        FOLDER/tests/property/property.py and FOLDER/config.json stand for this tree's."""
        root = cls.root_of(config, version)
        packed = Pack(folder, root, 'config.json')
        packed.copy_libraries({'interpret': root.link(INTERPRET)})
        packed.copy_scripts({'tests/property': [HERE / 'property.py', HERE / 'on_amd.py'],
                             'tests/amd': [HERE.parent / 'amd' / name for name in ('amd_runtimes.py', 'pack.py', 'defects.toml')],
                             'tests/support': [HERE.parent / 'support' / 'runs.py']})
        packed.finish({'version': version, 'launcher': packed.launcher, 'interpret': packed.program('interpret'),
                       'library': packed.library, 'before': []})

    @property
    def environment(self):
        """Variables of every process."""
        avoided = {name: value for entry in self.defects for name, value in entry.get('environment', {}).items()}
        return dict(UNCONTRACTED, **avoided)

    def command(self, arguments):
        return [*self.start, '--step-by-step', *arguments]  # so that its last step is known

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
        program = re.split(r'(?m)^program \d+$', native)[-1]
        for entry in self.defects:
            if 'ends' in entry and re.search(entry['ends'], lines[-1]) and re.search(entry.get('after', ''), program):
                return entry['reason']
        return None
