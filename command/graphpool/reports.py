"""reports.py: reading reports of the library (../../shim/report/README.md has their format), and the figures that tables show.

Reports written before they had a format number are read, too: what they lack is None.
"""
import calendar
import collections
import json
import os
import socket
import sys
import time

FORMAT = 1
# What served a launch, as reports say it and in words.
WAYS = collections.OrderedDict([
    ('same', 'the same exec'), ('patch', 'a patched exec'), ('new_exec', 'a new exec'), ('one_shot', 'an exec for one use'),
    ('stage', 'a staged exec'), ('native_update', 'an exec that the program updated')])
# A capture was compared with a graph, and went on in another way.
OTHER_WAY = ('differs from every recording', 'the capture ended before its recording')


class Unreadable(Exception):
    """A path is no report. The text says which and why."""


class Report:
    """One process's report and the figures that are made of it."""

    def __init__(self, path, data):
        self.path = path
        self.data = data
        graphs = data['graphs']
        self.graphs = sorted(data.get('recordings', []), key=lambda graph: graph['graph'])
        self.captures_served = graphs['captures_avoided']
        self.captures = graphs['captures_recorded'] + graphs['captures_avoided'] + graphs['captures_refused']
        self.instantiates = graphs['instantiates']
        self.launches = graphs['launches']
        self.saved_ms = graphs['estimated_ns_saved'] / 1e6
        pool = data['pool']
        self.allocations_served = pool['allocations_reused']
        self.allocations = pool['allocations_reused'] + pool['allocations_from_runtime']
        self.kept_bytes = sum(each['bytes'] for each in data['memory']['kept'])
        self.peak_kept_bytes = sum(each['peak_bytes'] for each in data['memory']['kept'])
        costs = graphs['costs'].values()
        self.costs_measured = sum(1 for cost in costs if cost['measured'])
        self.costs = len(graphs['costs'])
        self.calls = sum(data.get('calls', {}).values())
        self.elapsed_ms = data.get('elapsed_ms')

    @property
    def process(self):
        return self.data.get('process', 0)

    @property
    def rank(self):
        return self.data.get('rank', '0')

    @property
    def host(self):
        return self.data.get('host', 'unknown')

    @property
    def program(self):
        command = self.data.get('command')
        return os.path.basename(command[0]) if command else 'process'

    @property
    def name(self):
        return '{}[{}]'.format(self.program, self.process)

    @property
    def ended(self):
        return self.data.get('ended', True)

    def still_runs(self):
        """Whether its process is on this host, and is no later one with the same number."""
        if self.ended or self.host != socket.gethostname():
            return False
        try:
            with open('/proc/{}/stat'.format(self.process)) as file:
                fields = file.read().rpartition(')')[2].split()
            with open('/proc/uptime') as file:
                up = float(file.read().split()[0])
            started = time.time() - up + int(fields[19]) / os.sysconf('SC_CLK_TCK')
            written = calendar.timegm(time.strptime(self.data['time'], '%Y-%m-%dT%H:%M:%SZ'))
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return False
        return fields[0] not in 'ZX' and started < written + 2

    def goes_another_way(self, told):
        """Whether captures stopped being like a graph only where they were the first ones of other graphs, which were served
        afterwards. Nothing could have served those."""
        first_only = all(graph['captures'] - graph.get('captures_verified', 0) <= 1 and graph['captures_avoided']
                         for graph in self.graphs)
        return first_only and 'graph' in told and told['reason'].endswith(OTHER_WAY)

    def reasons(self):
        """(count, reason, where, noun) of whatever was not served, most often first. where: text, or ''. noun: what is counted."""
        found = []
        for told in self.data['graphs']['materialisations']:
            if not self.goes_another_way(told):
                found.append((told['count'], told['reason'], place_of(told), 'capture'))
        for key, noun in (('refusals', 'capture or graph'), ('left_to_runtime', 'exec or update')):
            found += [(told['count'], told['reason'], '', noun) for told in self.data['graphs'][key]]
        return sorted(found, key=lambda each: (-each[0], each[1], each[2]))

    def reasons_of(self, number):
        """What made captures of one graph real."""
        return [told for told in self.data['graphs']['materialisations'] if told.get('graph') == number]


def place_of(told):
    """Where a capture stopped being like its recording."""
    if 'operation' not in told:
        return ''
    text = 'operation {}'.format(told['operation'])
    if told.get('kernel'):
        text += ', kernel {}'.format(told['kernel'])
    elif told.get('kind'):
        text += ', {}'.format(told['kind'])
    return text


def counted(count, noun):
    """A number of things: '3 execs or updates'."""
    if count != 1:
        noun = ' or '.join(word + ('es' if word.endswith('s') else 's') for word in noun.split(' or '))
    return '{} {}'.format(count, noun)


def captures_of(graph):
    """(served, all) captures of one graph."""
    return graph['captures_avoided'], graph['captures'] + graph['captures_avoided']


def launches_of(graph):
    return sum(graph['launches'].get(way, 0) for way in WAYS)


def name_of(graph):
    """A graph by its first and last kernel; by its size where they are not known."""
    first, last = graph.get('first_kernel'), graph.get('last_kernel')
    if not first:
        return '{} nodes'.format(graph['operations'])
    return first if last in (None, first) else '{} .. {}'.format(first, last)


def load(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            text = file.read()
        if not text:
            raise Unreadable('{}: empty: no report was written to it'.format(path))
        data = json.loads(text)
    except OSError as why:
        raise Unreadable('{}: {}'.format(path, why.strerror))
    except ValueError:
        raise Unreadable('{}: not a report (not JSON)'.format(path))
    if isinstance(data, dict) and 'traceEvents' in data:
        raise Unreadable('{}: a trace; ui.perfetto.dev or speedscope shows it'.format(path))
    if not isinstance(data, dict) or not {'graphs', 'pool', 'memory'} <= set(data):
        raise Unreadable('{}: not a report of the library'.format(path))
    if data.get('format', FORMAT) > FORMAT:
        raise Unreadable('{}: a report of format {}; this command reads up to {}'.format(path, data['format'], FORMAT))
    try:
        return Report(path, data)
    except (KeyError, TypeError, AttributeError) as why:
        raise Unreadable('{}: a damaged report: {} is missing or wrong'.format(path, why))


def find(paths):
    """The reports in files and folders, by host, rank and process. Other JSON in a folder is passed over; where its name is one
    of a report, that is said."""
    found = []
    for path in paths:
        if not os.path.isdir(path):
            found.append(load(path))
            continue
        inside = []
        for name in sorted(os.listdir(path)):
            if not name.endswith('.json'):
                continue
            try:
                inside.append(load(os.path.join(path, name)))
            except Unreadable as why:
                if name.startswith('graphpool-') and not name.endswith('.trace.json'):
                    sys.stderr.write('graphpool: passed over {}\n'.format(why))
        if not inside:
            raise Unreadable('{}: no report in this folder'.format(path))
        found += inside
    return sorted(found, key=order)


def order(report):
    rank = str(report.rank)
    return (report.host, not rank.isdigit(), int(rank) if rank.isdigit() else 0, rank, report.data.get('time', ''),
            report.process)
