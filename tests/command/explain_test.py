"""graphpool explain: what it says of real reports, and what it refuses."""
import json

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
        self.assertNotIn(served, explained())
        self.assertIn('The recording was dropped.', explained())

    def test_execs_that_were_given_back(self):
        self.assertNotIn('graph.exec_memory', self.explained('batch_sizes'))
        program = [support.PROGRAMS / 'batch_sizes', '--mode', 'cached']
        code, _, errors = self.graphpool('run', '--report', 'limited', '--', *program, GRAPHPOOL_GRAPH_EXEC_MEMORY=1)
        self.assertEqual(0, code, errors)
        output = ' '.join(self.graphpool('explain', 'limited')[1].split())
        # An exec that still runs when another is made is given back later, or stays: at most all that were made go.
        self.assertRegex(output, r'graph\.exec_memory has no room for all execs: one was given back 1[0-5] times, and made again 10 times')

    def test_no_graph_at_all(self):
        self.assertEqual(0, self.graphpool('run', '--', *self.python(''))[0])
        self.assertIn('No graph was captured.', self.graphpool('explain', 'graphpool-reports')[1])

    def test_refused(self):
        self.refused(2, 'explain', says='which report?')
        self.refused(2, 'explain', 'a', 'b', 'c', says='which report?')
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
