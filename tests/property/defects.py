"""defects.py: each fault put into the library on purpose (shim/base/seeded_defect.h) is found by the fixed seeds.

defects.py [--programs N] --seeded LIBRARY CONFIG

LIBRARY is the library built with its faults; the ordinary one must not know of them. Prints for each fault after how many
programs it was found; fails where one was not.
"""
import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from property import Runner, Settings, compare, random_settings  # noqa: E402

HEADER = pathlib.Path(__file__).resolve().parents[2] / 'shim' / 'base' / 'seeded_defect.h'
SWITCH = b'SEEDED_DEFECT'


def names():
    body = re.search(r'enum class Seeded[^{]*{(.*?)// Found by `verify`', HEADER.read_text(), re.S)[1]
    return re.findall(r'^  k(\w+)', body, re.M)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('config')
    parser.add_argument('--programs', type=int, default=2000)
    parser.add_argument('--batch', type=int, default=25)
    parser.add_argument('--seeded', required=True)
    options = parser.parse_args()
    config = json.loads(pathlib.Path(options.config).read_text())
    if SWITCH in pathlib.Path(config['library']).read_bytes():
        print('the ordinary library holds the switch of the faults')
        return 1
    if SWITCH not in pathlib.Path(options.seeded).read_bytes():
        print('the library with faults has no switch')
        return 1
    runner = Runner(config, options.seeded)
    left = dict(enumerate(names(), 1))
    assert len(left) >= 10, left
    for first in range(0, options.programs, options.batch):
        settings = random_settings(first)
        arguments = ['--programs', str(first), str(options.batch)]
        native = runner.run(settings, arguments, False)
        for number in sorted(left):
            faulty = Settings(settings.runtime, dict(settings.library, SEEDED_DEFECT=str(number)), settings.features)
            inject = 'inject' in settings.features
            found = compare(native, runner.run(faulty, arguments, True), inject)
            if found is not None:
                if compare(native, Runner(config).run(settings, arguments, True), inject) is not None:
                    print(f'programs from {first} differ without a fault')
                    return 1
                print(f'{left.pop(number)}: found by program {found[0]}: natively {found[1][1]}, with it {found[1][2]}',
                      flush=True)
        if not left:
            return 0
    print(f'not found by {options.programs} programs: {", ".join(left.values())}')
    return 1


if __name__ == '__main__':
    sys.exit(main())
