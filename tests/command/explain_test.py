"""graphpool explain: what it says of real reports, and what it refuses."""
import json
import time

import support


class Explain(support.CommandTest):
    def explained(self, program, *words, **variables):
        code, _, errors = self.graphpool('run', '--', support.PROGRAMS / program, **variables)
        self.assertEqual(0, code, errors)
        code, output, errors = self.graphpool('explain', 'graphpool-reports', *words)
        self.assertEqual((0, ''), (code, errors))
        return output

    def test_shapes_that_differ(self):
        output = self.explained('batch_sizes')
        self.assertIn('at operation 1, kernel layer (another grid): The capture began like an earlier one', output)
        self.assertIn('Capture once per shape, or pad to few shapes.', ' '.join(output.split()))
        self.assertIn('Its memory moves:', output)
        self.assertEqual(2, output.count('\ngraph '))

    def test_one_graph(self):
        output = self.explained('batch_sizes', '2')
        self.assertEqual(1, output.count('\ngraph '))
        self.assertIn('\ngraph 2: ', output)

    def test_what_is_left_alone(self):
        program = self.python('''
            stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
            assert hip.hipStreamBeginCapture(ctypes.c_void_p(2), 2) == 0
            hip.hipMemsetAsync(memory, 0, ctypes.c_size_t(16), ctypes.c_void_p(2))
            assert hip.hipStreamEndCapture(ctypes.c_void_p(2), ctypes.byref(graph)) == 0
            ''')
        self.assertEqual(0, self.graphpool('run', '--', *program)[0])
        output = self.graphpool('explain', 'graphpool-reports')[1]
        self.assertIn('The capture was on the null stream or a per-thread stream.', output)
        self.assertIn('What to do: Capture on a stream made by hipStreamCreate.', output)

    def test_who_captured_it(self):
        transformer = [support.PROGRAMS / 'transformer', '--steps', '3']
        self.assertEqual(0, self.graphpool('run', '--report', 'a', '--', *transformer)[0])
        self.assertRegex(self.graphpool('explain', 'a', '1')[1], r'\n  Captured by transformer!.*Runner::recapture\(\)\.\n')
        self.assertEqual(0, self.graphpool('run', '--report', 'b', '--set', 'report.callsites=true', '--', *transformer)[0])
        self.assertRegex(self.graphpool('explain', 'b', '1')[1], r'\n  Captured by transformer!.*Runner::recapture\(\) < transformer!')

    def test_where_nothing_stands_in_the_way(self):
        self.assertEqual(0, self.graphpool('run', '--report', 'a', '--', support.PROGRAMS / 'transformer', '--steps', '3')[0])
        report = self.reports('a')[0]
        # The recording goes with the program's modules at its end.
        self.assertEqual('a module with a kernel of it was unloaded', report['recordings'][0]['dropped'])
        served = "Nothing stands in its way. A graph's first capture is always recorded."

        def explained():
            return self.graphpool('explain', self.file('r.json', json.dumps(report)))[1]

        self.assertIn(served, explained())
        self.assertNotIn('dropped', explained())
        report['recordings'].append(dict(report['recordings'][0], graph=2))  # the same graph was captured again after that
        self.assertEqual(1, explained().count(served))
        self.assertIn('The recording was dropped.', explained())

    def test_graphs_that_begin_alike(self):
        output = ' '.join(self.explained('fork_join').split())
        self.assertEqual(5, output.count("Nothing stands in its way. A graph's first capture is always recorded."))
        self.assertIn('Once, at operation 1, fill (another kind of operation), another graph began like this one and goes another way. '
                      'Nothing to do.', output)
        for text in ('What to do', 'dropped', 'another size'):
            self.assertNotIn(text, output)
        self.assertNotIn('why not', self.graphpool('report', 'graphpool-reports')[1])
        # Shapes that never come back are another matter.
        report = self.reports()[0]
        report['recordings'][0]['captures_avoided'] = 0
        self.assertIn('What to do', self.graphpool('explain', self.file('r.json', json.dumps(report)))[1])

    def test_memory_that_moves(self):
        output = ' '.join(self.explained('pooled').split())
        self.assertRegex(output, r'memory that no rule names: moved \d+ times, \d addresses of \w+\.')
        self.assertIn('All the same, 12 of 16 launches were of an exec that had their addresses.', output)

    def test_a_process_that_still_runs(self):
        program = self.python('print("ready", flush=True); time.sleep(100)')
        process = self.start('run', '--', *program)
        try:
            self.assertEqual('began\n', process.stdout.readline())
            deadline = time.monotonic() + 30
            while not any(path.stat().st_size for path in (self.folder / 'graphpool-reports').glob('*.json')):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            for words in (['report', 'graphpool-reports'], ['explain', 'graphpool-reports']):
                self.assertRegex(self.graphpool(*words)[1], r', as of \S+Z: it still runs')
            report = self.reports()[0]
        finally:
            process.terminate()
            self.finish(process)
        path = self.file('r.json', json.dumps(report))
        said = r', as of \S+Z: the last that it wrote; it was ended, or runs elsewhere'
        self.assertRegex(self.graphpool('report', path)[1], said)
        self.graphpool('report', path, '--html', 'p.html')
        self.assertRegex((self.folder / 'p.html').read_text(), said)
        many = self.graphpool('report', path, path)[1]
        self.assertEqual(2, many.count('wrote no end'), many)

    def test_processes_that_are_alike(self):
        self.assertEqual(0, self.graphpool('run', '--', support.PROGRAMS / 'transformer', '--steps', '2')[0])
        report = self.reports()[0]
        for rank in range(8):
            self.file('ranks/{}.json'.format(rank), json.dumps(dict(report, rank=str(rank))))
        output = self.graphpool('explain', 'ranks')[1]
        self.assertEqual(1, output.count('\ngraph 1'))
        self.assertRegex(output, r'^8 processes of transformer on \S+, ranks 0 to 7: the same of each')

    def test_without_a_gpu(self):
        self.assertEqual(0, self.graphpool('run', '--', *self.python(''))[0])
        path = self.file('r.json', json.dumps(dict(self.reports()[0], devices=[])))
        self.assertIn("No GPU is named by this machine's drivers", self.graphpool('explain', path)[1])

    def test_execs_that_were_given_back(self):
        self.assertNotIn('graph.exec_memory', self.explained('batch_sizes'))
        program = [support.PROGRAMS / 'batch_sizes', '--mode', 'cached']
        code, _, errors = self.graphpool('run', '--report', 'limited', '--', *program, GRAPHPOOL_GRAPH_EXEC_MEMORY=1)
        self.assertEqual(0, code, errors)
        output = ' '.join(self.graphpool('explain', 'limited')[1].split())
        # An exec that still runs when another is made is given back later, or stays: at most all that were made go.
        self.assertRegex(output, r'graph\.exec_memory has no room for all execs: one was given back 1[0-5] times, and made again 10 times')

    def test_very_many_graphs(self):
        self.explained('recapture_if_moved')
        report = self.reports()[0]
        report['recordings'][0].pop('dropped')
        report['recordings'] = [dict(report['recordings'][0], graph=number) for number in range(1, 201)]
        path = self.file('many.json', json.dumps(report))
        output = self.graphpool('explain', path)[1]
        self.assertEqual(20, output.count('Nothing stands in its way'))
        self.assertIn('\n180 graphs more: nothing stands in their way. graphpool explain PATH GRAPH tells of one.\n', output)
        self.assertIn('graph 199: ', self.graphpool('explain', path, '199')[1])
        self.assertIn('8 launches: 8 of 1 new exec.', output)

    def test_no_graph_at_all(self):
        self.assertEqual(0, self.graphpool('run', '--', *self.python(''))[0])
        self.assertIn('No graph was captured.', self.graphpool('explain', 'graphpool-reports')[1])

    def test_refused(self):
        self.refused(2, 'explain', says='which report?')
        self.refused(2, 'explain', 'a', 'b', 'c', says='which report?')
        (self.folder / 'both').mkdir()
        self.refused(2, 'explain', 'a', 'both', says='one report or folder at a time; the second word is the number of a graph')
        self.refused(2, 'explain', 'a', 'b', says='b: a graph is named by its number')
        self.refused(1, 'explain', 'nowhere.json', says='nowhere.json: No such file or directory')
        (self.folder / 'empty').mkdir()
        self.refused(1, 'explain', 'empty', says='empty: no report in this folder')
        self.refused(1, 'explain', self.file('x.json', '{'), says='x.json: not a report (not JSON)')
        self.refused(1, 'explain', self.file('x.json', '[]'), says='x.json: not a report of the library')
        self.refused(1, 'explain', self.file('x.json', '{"graphs": {}, "pool": {}, "memory": {}}'), says='a damaged report')
        self.assertEqual(0, self.graphpool('run', '--', *self.python(''))[0])
        self.refused(1, 'explain', 'graphpool-reports', '7', says='graphpool-reports has no graph 7; it has none')
        self.assertEqual(0, self.graphpool('run', '--report', 'b', '--', support.PROGRAMS / 'transformer', '--steps', '2')[0])
        self.refused(1, 'explain', 'b', '7', says='b has no graph 7; it has graph 1\n')
        report = self.reports()[0]
        report['format'] = 99
        self.refused(1, 'explain', self.file('new.json', json.dumps(report)), says='a report of format 99; this command reads up to 1')


if __name__ == '__main__':
    support.main()
