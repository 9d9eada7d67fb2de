"""call_times.py: how long a program's HIP calls take, without and with the library.

Both kinds of runs preload libgraphpool-timed.so: the library with entries that read the clock (../../hooks/call_time.h). Without the
library means there: switched off, so that it only forwards. So both have the same clock around the same calls. These are runs
of their own, because the clock makes calls longer.
"""
import os
import struct

from . import places, tables

HEAD, ROW = struct.Struct('<16sQQ'), struct.Struct('<64sQQ')
MARK = b'graphpool times\0'
MOST_FUNCTIONS = 5


class Times:
    """The calls of all processes of some runs: {function: (calls, ns)}, and what one reading of the clock cost."""

    def __init__(self):
        self.functions, self.clock_ns, self.runs, self.wall_s = {}, 0.0, 0, 0.0

    def add(self, folder, wall_s):
        """The files of one run, and how long it took."""
        self.runs += 1
        self.wall_s += wall_s
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), 'rb') as file:
                data = file.read()
            if len(data) < HEAD.size or not data.startswith(MARK):
                continue  # the process was ended while it made the file
            rows, clock_ps = HEAD.unpack_from(data)[1:]
            self.clock_ns = max(self.clock_ns, clock_ps / 1000.0)
            for i in range(rows):
                function, calls, ns = ROW.unpack_from(data, HEAD.size + i * ROW.size)
                if calls:
                    self.count(function.split(b'\0')[0].decode(), calls, ns)

    def count(self, function, calls, ns):
        before = self.functions.get(function, (0, 0))
        self.functions[function] = (before[0] + calls, before[1] + ns)

    def sum(self, chosen=lambda function: True):
        """(calls, ms) of the functions chosen, of one run."""
        found = [value for function, value in self.functions.items() if chosen(function)]
        runs = max(self.runs, 1)
        return sum(calls for calls, _ in found) / runs, sum(ns for _, ns in found) / 1e6 / runs

    def as_json(self):
        calls, ms = self.sum()
        functions = {function: {'calls': calls / self.runs, 'ms': ns / 1e6 / self.runs}
                     for function, (calls, ns) in sorted(self.functions.items())}
        return {'runs': self.runs, 'wall_ms': 1000 * self.wall_s / self.runs, 'calls': calls, 'ms': ms,
                'clock_ns': self.clock_ns, 'functions': functions}


def waits(function):
    return 'Synchronize' in function


def environment(base, with_library, folder):
    """That of a run whose times go to the folder. base: as for a run without or with the library."""
    made = dict(base, LIBGRAPHPOOL_CALL_TIMES=folder)
    before = made.get('LD_PRELOAD', '')
    if with_library:
        before = before.partition(':')[2]  # behind the library itself
    else:
        made['GRAPHPOOL_ENABLED'] = 'false'
    made['LD_PRELOAD'] = places.timed_library() + (':' + before if before else '')
    return made


def change(off, on):
    return '{:+.1f} %'.format(100 * (on - off) / off) if off else '-'


def lines(off, on):
    """What was measured, as a table: all calls, those that wait, and the functions that took longest."""
    if not off.functions or not on.functions:
        return ['HIP calls  none was seen']
    functions = set(off.functions) | set(on.functions)
    rows = [('all', lambda function: True)]
    if sum(map(waits, functions)) > 1:
        rows.append(('of these, hip...Synchronize', waits))
    longest = sorted(functions, reverse=True,
                     key=lambda function: max(each.functions.get(function, (0, 0))[1] for each in (off, on)))
    rows += [(function, lambda each, function=function: each == function) for function in longest[:MOST_FUNCTIONS]]
    cells = []
    for name, chosen in rows:
        (off_calls, off_ms), (on_calls, on_ms) = off.sum(chosen), on.sum(chosen)
        cells.append((name, '{:.0f}'.format(off_calls), tables.time_text(off_ms), '{:.0f}'.format(on_calls),
                      tables.time_text(on_ms), change(off_ms, on_ms)))
    found = tables.grid(('host time in HIP calls', 'calls off', 'time off', 'calls on', 'time on', 'change'), cells)
    runs = 'one run each' if on.runs == 1 else 'mean of {} runs each'.format(on.runs)
    return found + ['  {}, with waits; in each call about {:.0f} ns are the clock\'s own'.format(runs, max(off.clock_ns, on.clock_ns))]
