"""graphpool compare: which runs are made, what is told, what is refused."""
import json
import re

import support
from graphpool import call_times, compare


class Compare(support.CommandTest):
    def test_a_program(self):
        code, output, errors = self.graphpool('compare', '-n', '2', '--', support.PROGRAMS / 'transformer', '--steps', '4')
        self.assertEqual(0, code, errors)
        order = [line.split(' library')[0].split()[-2:] for line in errors.splitlines() if ': run ' in line]
        self.assertEqual(['without', 'with', 'with', 'without'], [words[0] for words in order])
        self.assertRegex(output, r'output +the output is identical \(\d+ bytes\)')
        self.assertRegex(output, r'library +6 of 8 captures served \(75\.0 %\), by 2 processes of all its runs')
        self.assertRegex(output, r'wall time +[+-]\d+\.\d % \+- \d+\.\d: ')
        self.assertFalse((self.folder / 'graphpool-reports').exists())

    def test_output_that_differs(self):
        code, output, _ = self.graphpool('compare', '-n1', 'sh', '-c', 'echo "$LD_PRELOAD"')
        self.assertEqual(1, code)
        self.assertIn('the output DIFFERS under the library', output)
        self.assertIn('one run each tells no spread', output)
        self.assertIn('no HIP call was seen', output)

    def test_output_that_cannot_be_compared(self):
        code, output, _ = self.graphpool('compare', '-n', '2', 'sh', '-c', 'echo $$')
        self.assertEqual(0, code)
        self.assertIn('differs from run to run without the library', output)

    def test_one_run_each_of_output_that_cannot_be_compared(self):
        code, output, errors = self.graphpool('compare', '-n', '1', 'sh', '-c', 'echo $$')
        self.assertEqual(0, code)
        self.assertIn('differs from run to run without the library', output)
        self.assertIn('graphpool: the output differs: another run without the library', errors)
        self.assertNotIn('another run', self.graphpool('compare', '-n', '1', 'echo', 'same')[2])

    def test_a_program_that_fails(self):
        code, output, errors = self.graphpool('compare', '-n', '1', 'sh', '-c', 'echo broken >&2; exit 3')
        self.assertEqual(1, code)
        self.assertIn('    broken\n', errors)
        self.assertIn('program    it failed: exit code 3 in 2 of 2 runs\n', output)
        output = self.graphpool('compare', '-n', '1', '--json', 'sh', '-c', 'exit 3')[1]
        self.assertEqual('exit code 3 in 2 of 2 runs', json.loads(output)['failed'])
        code, output, errors = self.graphpool('compare', '-n', '1', 'sh', '-c', 'test -z "$LD_PRELOAD"')
        self.assertEqual(1, code)
        self.assertIn('exit code 0 without, 1 with the library', output)

    def test_refused(self):
        self.refused(2, 'compare', says='which program?')
        self.refused(2, 'compare', '--calls', 'x', 'true', says='--calls x: a number of runs from 0 to 1000')
        for count in ('0', 'x', '-1', '1001'):
            self.refused(2, 'compare', '-n', count, 'true', says='a number of runs from 1 to 1000')
        self.refused(127, 'compare', 'no-such-program', says='not found in PATH')
        self.refused(125, 'compare', '--set', 'graph.slots=0', 'true', says=['an integer from 1 to 64', 'nothing was started'])
        self.refused(125, 'compare', 'true', says='is not there', GRAPHPOOL_LIBRARY='/nowhere.so')
        self.refused(125, 'compare', 'true', says='nothing was started', GRAPHPOOL_LIBRARY=self.file('x.so', ''))


# A host function sleeps while the program waits; the program itself sleeps outside of HIP. It leaves without exit handlers.
SLEEPS = """
    import threading
    waiting = threading.Event()

    def sleep(_):
        waiting.wait()
        time.sleep(0.2)

    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(sleep)
    assert hip.hipLaunchHostFunc(None, function, None) == 0
    found = ctypes.c_void_p()
    assert hip.hipGetProcAddress(b'hipMalloc', ctypes.byref(found), 60100, ctypes.c_uint64(0), None) == 0
    malloc = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(found.value)
    assert malloc(ctypes.addressof(memory), 4096) == 0
    waiting.set()
    assert hip.hipDeviceSynchronize() == 0
    time.sleep(0.3)
    os._exit(0)
    """


class CallTimes(support.CommandTest):
    def compare(self, *words):
        code, output, errors = self.graphpool('compare', '-n', '1', *words)
        self.assertEqual(0, code, errors)
        return output, errors

    def test_every_call_is_timed_on_both_sides(self):
        output, errors = self.compare('--calls', '2', '--json', '--', *self.python(SLEEPS))
        result = json.loads(output)
        self.assertEqual(4, len(re.findall(r'timed \d of 2 with.*exit code 0', errors)))
        sides = result['hip_calls']
        for side in sides.values():
            functions = side['functions']
            self.assertEqual({'hipMalloc': 2, 'hipDeviceSynchronize': 1, 'hipLaunchHostFunc': 1, 'hipGetProcAddress': 1},
                             {function: value['calls'] for function, value in functions.items()})
            self.assertEqual(2, side['runs'])
            self.assertGreater(functions['hipDeviceSynchronize']['ms'], 50)
            self.assertLess(side['ms'], side['wall_ms'] - 300)
            self.assertGreater(side['clock_ns'], 0)
            for value in functions.values():
                self.assertGreaterEqual(value['ms'] * 1e6, value['calls'])
        self.assertEqual((True, 1), (result['output']['same'], len(result['runs']['on'])))

    def test_graphs_in_text_and_json(self):
        words = ['--calls', '1', '--', support.PROGRAMS / 'transformer', '--steps', '4']
        result = json.loads(self.compare('--json', *words)[0])
        off, on = result['hip_calls']['off'], result['hip_calls']['on']
        self.assertEqual({function: value['calls'] for function, value in off['functions'].items()},
                         {function: value['calls'] for function, value in on['functions'].items()})
        self.assertEqual(4, on['functions']['hipGraphLaunch']['calls'])
        self.assertEqual((3, 4), (result['library']['captures_served'], result['library']['captures']))
        output = self.compare(*words)[0]
        self.assertRegex(output, r'host time in HIP calls +calls off +time off +calls on +time on +change\nall +'
                         r'{0:.0f} +[\d.]+ m?s +{0:.0f} +[\d.]+ m?s +[+-][\d.]+ %\n'.format(on['calls']))
        self.assertIn('one run each, with waits; in each call about ', output)
        self.assertIn('\nhipStreamSynchronize ', output)

    def test_it_can_be_left_out(self):
        output, errors = self.compare('--calls', '0', '--', *self.python(''))
        self.assertNotIn('host time', output)
        self.assertNotIn('timed', errors)
        library = self.file('alone/libgraphpool.so', '')
        library.unlink()
        library.symlink_to(support.BUILD / 'hooks/libgraphpool.so')
        code, output, errors = self.graphpool('compare', '-n1', 'true', GRAPHPOOL_LIBRARY=library)
        self.assertEqual(0, code, errors)
        self.assertIn('host time in HIP calls is left out: libgraphpool-timed.so is not there', errors)
        self.refused(125, 'compare', '--calls', '1', 'true', says='libgraphpool-timed.so is not there', GRAPHPOOL_LIBRARY=library)
        self.assertIn('HIP calls  none was seen', self.compare('true')[0])

    def test_the_table_names_what_took_longest(self):
        off, on = call_times.Times(), call_times.Times()
        off.runs = on.runs = 2
        for each, ns in ((off, 4000000), (on, 1000000)):
            each.count('hipGraphInstantiate', 8, ns)
            each.count('hipStreamSynchronize', 2, 2000000)
        self.assertNotIn('of these', '\n'.join(call_times.lines(off, on)))  # one function: its own row says it
        for each in (off, on):
            each.count('hipEventSynchronize', 2, 0)
        lines = [line.split() for line in call_times.lines(off, on)]
        self.assertEqual(['all', '6', '3.0', 'ms', '6', '1.5', 'ms', '-50.0', '%'], lines[1])
        self.assertEqual(['of', 'these,', 'hip...Synchronize', '2', '1.0', 'ms', '2', '1.0', 'ms', '+0.0', '%'], lines[2])
        self.assertEqual(['hipGraphInstantiate', '4', '2.0', 'ms', '4', '0.5', 'ms', '-75.0', '%'], lines[3])


class Verdicts(support.CommandTest):
    def test_differences_beside_the_spread(self):
        self.assertIn('no difference that 3 runs', compare.verdict([1.0, 1.2, 0.8], [1.0, 1.1, 0.9]))
        self.assertIn('-50.0 % +- ', compare.verdict([2.0, 2.01, 1.99], [1.0, 1.01, 0.99]))
        self.assertTrue(compare.verdict([2.0, 2.01, 1.99], [1.0, 1.01, 0.99]).endswith('faster under the library'))
        self.assertTrue(compare.verdict([1.0, 1.01, 0.99], [2.0, 2.01, 1.99]).endswith('slower under the library'))


if __name__ == '__main__':
    support.main()
