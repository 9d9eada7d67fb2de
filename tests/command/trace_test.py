"""The trace: graphpool run --trace and GRAPHPOOL_TRACE leave a file that is what the trace-event format says."""
import base64
import collections
import json
import pathlib
import shutil
import subprocess
import unittest

import support

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
SPEEDSCOPE = shutil.which('speedscope')
PHASES = {'X', 'b', 'e', 'i', 'C', 'M'}
RING = (1 << 14) - 1  # events that a thread's ring keeps


def problems(trace):
    """What a viewer would stumble over; empty: nothing. Complete events of a thread lie inside one another."""
    found, last, open_until, captures = [], 0, collections.defaultdict(list), set()
    for event in trace['traceEvents']:
        missing = {'name', 'ph', 'pid', 'tid', 'ts'} - set(event)
        if missing or event['ph'] not in PHASES:
            found.append('{}: {} missing'.format(event, missing))
            continue
        if event['ph'] == 'M':
            continue
        if event['ts'] < last:
            found.append('{} is not in order'.format(event))
        last = event['ts']
        if event['ph'] in 'be':
            key = (event['cat'], event['name'], event['id'])
            if (event['ph'] == 'b') == (key in captures):
                found.append('{} begins twice, or ends without a beginning'.format(event))
            captures ^= {key}
        if event['ph'] == 'C' and not all(isinstance(value, int) for value in event['args'].values()):
            found.append('{}: no figure'.format(event))
        if event['ph'] != 'X':
            continue
        if event.get('dur', -1) < 0:
            found.append('{}: no duration'.format(event))
            continue
        # In whole nanoseconds: the sums of fractions are not exact.
        begin, end = round(event['ts'] * 1000), round(event['ts'] * 1000) + round(event['dur'] * 1000)
        stack = open_until[event['pid'], event['tid']]
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and end > stack[-1]:
            found.append('{} ends after the event that it lies in'.format(event))
        stack.append(end)
    if captures:
        found.append('captures without an end: {}'.format(captures))
    counted = sum(1 for event in trace['traceEvents'] if event['ph'] not in 'Me')
    if counted != trace['otherData']['events']:
        found.append('{} events, not {}'.format(counted, trace['otherData']['events']))
    return found


class TheCheckItself(unittest.TestCase):
    def test_it_finds_what_is_wrong(self):
        def event(**more):
            return dict({'name': 'launch', 'cat': 'graphpool', 'ph': 'X', 'pid': 1, 'tid': 1, 'ts': 1.0, 'dur': 1.0}, **more)

        def said(*events):
            return problems({'traceEvents': list(events), 'otherData': {'events': len(events)}})
        self.assertEqual([], said(event(), event(ts=1.5, dur=0.5), event(ts=2.0)))
        self.assertIn('after the event', said(event(), event(ts=1.5))[0])
        self.assertIn('not in order', said(event(ts=3.0), event(ts=1.0))[0])
        self.assertIn('no duration', said(event(dur=-1))[0])
        self.assertIn('missing', said({'ph': 'X'})[0])
        self.assertIn('without an end', said(event(ph='b', id=1))[0])
        self.assertIn('without a beginning', said(event(ph='e', id=1))[0])


class Traces(support.CommandTest):
    def run_well(self, *words, **variables):
        """What graphpool run says."""
        code, _, said = self.graphpool('run', '--report', 'out', *words, **variables)
        self.assertEqual(0, code, said)
        return said

    def traced(self, program, *words, **variables):
        """(the trace, the report, what graphpool run has said)"""
        return self.traced_command([support.PROGRAMS / program, *words], **variables)

    def traced_command(self, command, **variables):
        said = self.run_well('--trace', '--', *command, **variables)
        trace, = (self.folder / 'out').glob('*.trace.json')
        report, = (each for each in (self.folder / 'out').glob('*.json') if each != trace)
        self.assertIn(str(trace.relative_to(self.folder)), said)
        trace, report = json.loads(trace.read_text()), json.loads(report.read_text())
        self.assertEqual([], problems(trace)[:3])
        return trace, report, said

    def test_each_kind_of_event_is_as_often_there_as_the_report_counts_it(self):
        trace, report, said = self.traced('transformer', '--steps', '40')
        named = collections.Counter(event['name'] for event in trace['traceEvents'] if event['ph'] in 'Xb')
        graphs = report['graphs']
        self.assertEqual(graphs['launches'], named['launch'])
        self.assertEqual(graphs['instantiates'], named['instantiate'])
        self.assertEqual(graphs['captures_recorded'] + graphs['captures_avoided'], named['capture'])
        served = [event for event in trace['traceEvents'] if event['ph'] == 'b' and event['args'].get('result') == 'served']
        self.assertEqual(graphs['captures_avoided'], len(served))
        ways = collections.Counter(event['args']['way'] for event in trace['traceEvents'] if event['name'] == 'launch')
        self.assertEqual({way: count for way, count in graphs['launches_by_way'].items() if count}, dict(ways))
        first = report['recordings'][0]
        name = '{} .. {}'.format(first['first_kernel'], first['last_kernel'])
        self.assertIn(name, {event['args'].get('kernels') for event in served})
        self.assertIn('C', {event['ph'] for event in trace['traceEvents']})
        self.assertEqual(trace['otherData']['events'], report['trace']['events'])
        self.assertEqual(0, trace['otherData']['dropped'])
        self.assertNotIn('dropped', said)

    def test_updates_of_execs(self):
        trace, report, _ = self.traced('update')
        updates = [event for event in trace['traceEvents'] if event['name'] == 'update']
        self.assertEqual(report['graphs']['updates'], len(updates))
        self.assertTrue(all(event['args']['way'] for event in updates))

    def test_several_threads(self):
        trace, _, _ = self.traced('streams_threads')
        launching = {event['tid'] for event in trace['traceEvents'] if event['name'] == 'launch'}
        self.assertGreater(len(launching), 1)
        named = {event['tid'] for event in trace['traceEvents'] if event['name'] == 'thread_name'}
        self.assertLessEqual(launching, named)

    def test_copies_of_slots_lie_in_launches(self):
        trace, report, _ = self.traced('donated', GRAPHPOOL_BUFFERS='[[buffer]]\nstage = "always"\n')
        copies = [event for event in trace['traceEvents'] if event['name'] == 'copies of slots']
        self.assertEqual(report['graphs']['launches_by_way']['stage'], len(copies))
        self.assertEqual(report['bytes_staged'], sum(event['args']['bytes'] for event in copies))

    def test_a_full_ring_says_how_many_were_dropped(self):
        trace, report, said = self.traced_command(self.python('''
            graph, runs = ctypes.c_void_p(), ctypes.c_void_p()
            assert hip.hipGraphCreate(ctypes.byref(graph), 0) == 0
            assert hip.hipGraphInstantiate(ctypes.byref(runs), graph, None, None, ctypes.c_size_t(0)) == 0
            for _ in range({}):
                assert hip.hipGraphLaunch(runs, None) == 0
            '''.format(RING + 500)))
        dropped = trace['otherData']['dropped']
        self.assertEqual(RING, trace['otherData']['events'])
        self.assertGreaterEqual(dropped, 500)
        self.assertEqual(dropped, report['trace']['dropped'])
        self.assertIn('{} older ones dropped'.format(dropped), said)

    def test_no_trace_is_overwritten(self):
        for _ in range(2):
            self.run_well('--', support.PROGRAMS / 'transformer', '--steps', '2', GRAPHPOOL_TRACE=self.folder / 't.json')
        for name in ('t.json', 't-2.json'):
            self.assertEqual([], problems(json.loads((self.folder / name).read_text())))

    def test_where_it_cannot_be_written_a_warning_says_so(self):
        said = self.run_well('--', support.PROGRAMS / 'transformer', '--steps', '2', GRAPHPOOL_TRACE='/nowhere/t.json')
        self.assertIn('no trace can be written to /nowhere/t.json: there is no such folder', said)

    def test_one_that_is_killed_has_left_a_trace(self):
        program = self.python('time.sleep(1)\nos.kill(os.getpid(), signal.SIGKILL)\n')
        self.graphpool('run', '--quiet', '--report', 'out', '--', *program, GRAPHPOOL_TRACE=self.folder / 't.json',
                       GRAPHPOOL_REPORT_EVERY='100ms')
        trace = json.loads((self.folder / 't.json').read_text())
        self.assertEqual([], problems(trace))

    @unittest.skipUnless(CHROMIUM and SPEEDSCOPE, 'there is no Chromium, or no speedscope')
    def test_a_viewer_shows_it(self):
        _, report, _ = self.traced('transformer', '--steps', '3')
        trace, = (self.folder / 'out').glob('*.trace.json')
        text = base64.b64encode(trace.read_bytes()).decode()
        page = pathlib.Path(SPEEDSCOPE).resolve().parents[1] / 'dist/release/index.html'
        loaded = self.file('loaded.js', 'speedscope.loadFileFromBase64("t.json", "{}")'.format(text))
        shown = subprocess.run(
            [CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--allow-file-access-from-files', '--virtual-time-budget=20000',
             '--user-data-dir={}'.format(self.folder / 'profile'), '--dump-dom', 'file://{}#localProfilePath={}'.format(page, loaded)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=200, check=True).stdout.decode()
        self.assertIn('graphpool {0} (pid {0}), transformer (tid {0})'.format(report['process']), shown)


if __name__ == '__main__':
    support.main()
