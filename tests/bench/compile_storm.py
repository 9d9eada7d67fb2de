"""compile_storm.py CONFIG [--quick]: modules compiled by clang inside a limit of memory: natively at each fixed -j, and
all at once under the library. CONFIG is that of tests/compile. Prints a JSON object a figure. Two storms:

  mixed  modules of 15 to 550 MB. All at once need more than the limit
  tight  equal modules, and a limit that three of them fill. The libraries of twelve compilers would be a third of it

A -j at which a compilation is killed for memory does not count; the best one is the fastest of the others. It and the
library then take turns, each turn with the modules in another order; medians are compared. Under the library sizes are
unknown in the first storm of each turn and known in the second. Where no two of an unknown size fit, the first of its class runs
alone: that is little of twelve modules, but of the four equal ones of --quick a quarter, and they cannot take less than 1.3
times the best -j on two processors.

On a machine that does other work as well, more processes at once get more of it. Where a control group for processors can be
made (version 1, as root), the storms run in one, whose share of the machine does not go by their number; else one ratio says
little there.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'compile'))
import compile_test  # noqa: E402

# Entries of the modules' tables, and the limit. A thousand entries take 0.27 MB and 1.2 ms.
STORMS = {
    'mixed': ([30_000] * 7 + [400_000] * 3 + [1_200_000] * 3 + [2_000_000] * 3, 1536 << 20),
    'tight': ([400_000] * 12, 400 << 20),
}
QUICK = {'mixed': ([30_000] * 3 + [400_000] * 2, 400 << 20), 'tight': ([400_000] * 4, 400 << 20)}


@contextlib.contextmanager
def share_of_processors():
    """This process, and all that it starts, in a control group that counts as much as sixteen processes; true if it is."""
    own = next((line.split(':', 2)[2] for line in pathlib.Path('/proc/self/cgroup').read_text().splitlines()
                if 'cpu' in line.split(':')[1].split(',')), '')
    above = pathlib.Path('/sys/fs/cgroup/cpu') / own.lstrip('/')
    group = above / f'graphpool-storm-{os.getpid()}'
    try:
        group.mkdir()
        (group / 'cpu.shares').write_text(str(16 * 1024))
        (group / 'cgroup.procs').write_text(str(os.getpid()))
        made = True
    except OSError:
        made = False
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            (above / 'cgroup.procs').write_text(str(os.getpid()))
            group.rmdir()


class Storm:
    def __init__(self, clang, name, sizes, limit_bytes):
        self.clang, self.name, self.limit_bytes = clang, name, limit_bytes
        self.sources = compile_test.storm_sources(sizes)
        self.peaks = []

    def figure(self, name, unit, value):
        print(json.dumps({'figure': f'{self.name}: {name}', 'unit': unit, 'value': value}), flush=True)

    def order(self, turn):
        self.sources.sort()
        random.Random(turn).shuffle(self.sources)

    def timed(self, name, preload, jobs):
        """Wall time of compiling all with so many at once, and the objects by module."""
        group = compile_test.MemoryGroup(self.limit_bytes)
        try:
            started = time.monotonic()
            objects, _ = compile_test.storm(self.clang, self.sources, name, preload, jobs, group, **group.keys())
            took = time.monotonic() - started
            if preload:
                self.peaks.append(group.peak())
            return took, dict(zip(self.sources, objects))
        finally:
            group.close()

    def best_jobs(self, turns):
        """The fastest -j of those that fit, by medians, and what it makes."""
        seconds, expected, most = {}, None, min(len(self.sources), 8)
        for turn in range(turns):
            self.order(turn)
            for jobs in range(1, most + 1):
                took, made = self.timed(f'j{jobs}', False, jobs)
                if None in made.values():
                    most = jobs - 1  # more at once are killed too
                    break
                seconds.setdefault(jobs, []).append(took)
                expected = expected or made
        seconds = {jobs: statistics.median(taken) for jobs, taken in seconds.items() if jobs <= most}
        if not seconds:
            sys.exit('not even one at a time fits into the limit')
        for jobs, took in seconds.items():
            self.figure(f'-j{jobs}', 's', took)
        return min(seconds, key=seconds.get), expected

    def run(self, folder, tries, turns):
        jobs, expected = self.best_jobs(tries)
        self.figure('best -j', '1', jobs)
        _, made = self.timed('all', False, len(self.sources))
        self.figure('all at once, killed', '1', list(made.values()).count(None))
        native, storms, in_flight = [], {'sizes unknown': [], 'sizes known': []}, 0
        for turn in range(turns):
            self.order(turn)
            native.append(self.timed('native', False, jobs)[0])
            compile_test.HERE = folder / f'{self.name}{turn}'  # a table of its own
            compile_test.HERE.mkdir()
            for what, seconds in storms.items():
                took, made = self.timed(what.split()[1], True, len(self.sources))
                if made != expected:
                    sys.exit(f'{self.name}, {what}: objects differ, or were not made')
                seconds.append(took)
            in_flight = max(in_flight, compile_test.seen()['peak'])
        self.figure('best -j, by turns', 's', statistics.median(native))
        for what, seconds in storms.items():
            self.figure(f'library, {what}', 's', statistics.median(seconds))
            self.figure(f'library, {what}, over best -j', '1', statistics.median(seconds) / statistics.median(native))
        if max(self.peaks):
            self.figure('library, peak memory over limit', '1', max(self.peaks) / self.limit_bytes)
        self.figure('library, peak in flight', '1', in_flight)


def main(config, quick=None):
    clang = shutil.which('clang-15') or shutil.which('clang')
    compile_test.CONFIG.update(json.loads(pathlib.Path(config).read_text()))
    with share_of_processors() as alone:
        print(json.dumps({'figure': 'share of the machine of their own', 'unit': '1', 'value': int(alone)}), flush=True)
        run_storms(clang, QUICK if quick else STORMS, quick)


def run_storms(clang, storms, quick):
    for name, (sizes, limit_bytes) in storms.items():
        with tempfile.TemporaryDirectory(prefix='storm-') as folder:
            compile_test.HERE = pathlib.Path(folder)
            Storm(clang, name, sizes, limit_bytes).run(pathlib.Path(folder), 1 if quick else 2, 1 if quick else 5)


if __name__ == '__main__':
    main(*sys.argv[1:])
