"""compile_storm.py CONFIG [--quick]: modules compiled by clang inside a limit of memory: natively at each fixed -j, and
all at once under the library. CONFIG is that of tests/compile. Prints a JSON object a figure.

A -j at which a compilation is killed for memory does not count; the best one is the fastest of the others. It and the
library then take turns: medians are compared. Under the library sizes are unknown in the first storm of each turn and known
in the second. On a machine that does other work as well one ratio says little: more processes at once get more of it.
Processes that wait have their compiler's libraries in memory: here, with a small limit, that is a third of it at first.
"""
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'compile'))
import compile_test  # noqa: E402


def figure(name, unit, value):
    print(json.dumps({'figure': name, 'unit': unit, 'value': value}), flush=True)


LIMIT_BYTES = 400 << 20


def timed(clang, sources, name, preload, jobs, **keys):
    """Wall time of compiling all with so many at once, the objects, and the most memory they took."""
    group = compile_test.MemoryGroup(LIMIT_BYTES)
    try:
        started = time.monotonic()
        objects, _ = compile_test.storm(clang, sources, name, preload, jobs, group, **group.keys(), **keys)
        return time.monotonic() - started, objects, group.peak()
    finally:
        group.close()


def best_jobs(clang, sources, turns):
    """The fastest -j of those that fit, by medians, and what it makes."""
    seconds, objects, most = {}, None, min(len(sources), 8)
    for _ in range(turns):
        for jobs in range(1, most + 1):
            took, made, _ = timed(clang, sources, f'j{jobs}', False, jobs)
            if None in made:
                most = jobs - 1  # more at once are killed too
                break
            seconds.setdefault(jobs, []).append(took)
            objects = objects or made
    seconds = {jobs: taken for jobs, taken in seconds.items() if jobs <= most}
    if not seconds:
        sys.exit('not even one at a time fits into the limit')
    for jobs, taken in seconds.items():
        figure(f'-j{jobs}', 's', statistics.median(taken))
    return min(seconds, key=lambda jobs: statistics.median(seconds[jobs])), objects


def main(config, quick=None):
    clang = shutil.which('clang-15') or shutil.which('clang')
    compile_test.CONFIG.update(json.loads(pathlib.Path(config).read_text()))
    with tempfile.TemporaryDirectory(prefix='storm-') as folder:
        compile_test.HERE = pathlib.Path(folder)
        sources = compile_test.storm_sources(4 if quick else 12)
        jobs, expected = best_jobs(clang, sources, 1 if quick else 3)
        figure('best -j', '1', jobs)
        native, storms, peaks, in_flight = [], {'sizes unknown': [], 'sizes known': []}, [], 0
        for turn in range(1 if quick else 5):
            native.append(timed(clang, sources, 'native', False, jobs)[0])
            compile_test.HERE = pathlib.Path(folder) / f'turn{turn}'  # a table of its own
            compile_test.HERE.mkdir()
            for what, seconds in storms.items():
                took, objects, peak = timed(clang, sources, what.split()[1], True, len(sources))
                if objects != expected:
                    sys.exit(f'{what}: objects differ, or were not made')
                seconds.append(took)
                peaks.append(peak)
            in_flight = max(in_flight, compile_test.seen()['peak'])
        figure('best -j, by turns', 's', statistics.median(native))
        for what, seconds in storms.items():
            figure(f'library, {what}', 's', statistics.median(seconds))
            figure(f'library, {what}, over best -j', '1', statistics.median(seconds) / statistics.median(native))
        if max(peaks):
            figure('library, peak memory over limit', '1', max(peaks) / LIMIT_BYTES)
        figure('library, peak in flight', '1', in_flight)


if __name__ == '__main__':
    main(*sys.argv[1:])
