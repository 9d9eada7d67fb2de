"""compile_storm.py CONFIG [--quick]: modules compiled by clang inside a limit of memory: natively at each fixed -j, and
all at once under the library. CONFIG is that of tests/compile. Prints a JSON object a figure.

A -j at which a compilation is killed for memory does not count; the best one is the fastest of the others. Under the
library sizes are unknown in the first storm and known in the second. On a machine that does other work as well the ratio
says little: more processes at once get more of it.
"""
import json
import pathlib
import shutil
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


def main(config, quick=None):
    clang = shutil.which('clang-15') or shutil.which('clang')
    compile_test.CONFIG.update(json.loads(pathlib.Path(config).read_text()))
    number = 4 if quick else 12
    with tempfile.TemporaryDirectory(prefix='storm-') as folder:
        compile_test.HERE = pathlib.Path(folder)
        sources = compile_test.storm_sources(number)
        best = None
        for jobs in range(1, min(number, 8) + 1):
            seconds, objects, _ = timed(clang, sources, f'j{jobs}', False, jobs)
            if None in objects:
                break  # more at once are killed too
            figure(f'-j{jobs}', 's', seconds)
            if best is None or seconds < best[1]:
                best = jobs, seconds, objects
        if best is None:
            sys.exit('not even one at a time fits into the limit')
        figure('best -j', '1', best[0])
        for what in ('sizes unknown', 'sizes known'):
            seconds, objects, peak = timed(clang, sources, what.split()[1], True, number)
            if objects != best[2]:
                sys.exit(f'{what}: objects differ, or were not made')
            figure(f'library, {what}', 's', seconds)
            figure(f'library, {what}, over best -j', '1', seconds / best[1])
            if peak:
                figure(f'library, {what}, peak memory over limit', '1', peak / LIMIT_BYTES)
        figure('library, peak in flight', '1', compile_test.seen()['peak'])


if __name__ == '__main__':
    main(*sys.argv[1:])
