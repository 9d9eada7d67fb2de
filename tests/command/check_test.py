"""graphpool check: every kind of stale address is found, told with kernel, argument and call sites; sound programs are silent."""
import json
import os
import pathlib

import support
from graphpool import check

STALE = pathlib.Path(os.environ['COMMAND_CHECK_PROGRAM'])
# What the graph does with the memory, and how that is told.
OPERATIONS = {'kernel': 'operation 2, kernel add_one, argument 1', 'structure': 'operation 2, kernel fill_work, a word of argument 0',
              'copy': 'operation 2, copy, argument 1', 'fill': 'operation 2, fill, argument 0'}
SOUND = ('transformer', 'batch_sizes', 'donated', 'pooled', 'nodes', 'update', 'set_params', 'fork_join')


class Check(support.CommandTest):
    def check(self, *words, **variables):
        code, output, errors = self.graphpool('check', '--', *words, CPUHIP_DEVICES=2, **variables)
        return code, output, [line for line in errors.splitlines() if not line.startswith('graphpool[')]

    def stale(self, defect, operation='kernel', memory='malloc', **variables):
        code, output, lines = self.check(STALE, '--defect', defect, '--operation', operation, '--memory', memory, **variables)
        self.assertEqual((1, 'launched\n'), (code, output), lines)
        self.assertRegex(lines[0], r'stale\[\d+\]: 1 stale address in 3 of 3 launches of graphs$')
        self.assertRegex(lines[1], r'^  graph 1 \(add_one.*\), {}: 3 launches$'.format(OPERATIONS[operation]))
        return lines

    def told(self, lines, why, allocated=None, freed=None):
        """That, and no more: who allocated and who freed it where that is known."""
        self.assertEqual('    ' + check.WHY[why], lines[2])
        for what, name, line in (('allocated by', allocated, 3), ('freed by', freed, 4)):
            if name is None:
                self.assertNotIn('    ' + what, '\n'.join(lines))
            else:
                self.assertIn(what, lines[line])
                self.assertIn(name, lines[line])

    def test_freed_memory(self):
        for operation in OPERATIONS:
            lines = self.stale('freed', operation)
            self.told(lines, 'freed', 'make_scratch', 'drop_scratch')
            self.assertEqual(operation == 'structure', 'it may be no address' in lines[-1], lines)
        self.told(self.stale('freed-before'), 'freed', 'make_scratch', 'drop_scratch')

    def test_memory_that_is_somebody_elses_by_now(self):
        for operation in OPERATIONS:
            self.told(self.stale('used-again', operation, CPUHIP_REUSE='always'), 'reused', 'make_scratch', 'drop_scratch')

    def test_memory_freed_in_stream_order(self):
        self.told(self.stale('freed', memory='async'), 'freed', 'stale', 'drop_async')

    def test_unmapped_memory(self):
        for operation in ('kernel', 'structure'):
            self.told(self.stale('freed', operation, memory='mapped'), 'unmapped', 'map', 'unmap')

    def test_memory_of_another_device(self):
        for operation in ('kernel', 'structure'):
            self.told(self.stale('other-device', operation), 'other_device', 'make_scratch')

    def test_addresses_without_memory(self):
        self.told(self.stale('beyond'), 'beyond', 'make_scratch')
        self.told(self.stale('nowhere'), 'nowhere')

    def test_a_launch_that_ends_the_process_is_told(self):
        code, _, lines = self.check(STALE, '--defect', 'freed', '--killed', '1')
        self.assertEqual(1, code, lines)
        self.assertRegex(lines[0], r': 1 stale address in 1 of 1 launches of graphs$')
        self.assertIn('  It did not come to its end, so this is what was seen up to its last report.', lines)

    def test_each_is_said_once_while_the_program_runs(self):
        errors = self.graphpool('check', '--', STALE, '--defect', 'freed')[2]
        self.assertRegex(errors, r'(?m)^graphpool\[\d+\]: warning: graph 1, operation 2 \(add_one\): argument 1 is an address in '
                                 r'memory that was freed; allocated by .*; freed by ')
        self.assertEqual(1, errors.count('warning: graph 1'))

    def test_what_is_sound(self):
        programs = [[STALE, '--operation', operation] for operation in (*OPERATIONS, 'end')]
        programs += [[STALE, '--memory', memory] for memory in ('async', 'mapped', 'peer')]
        programs += [[support.PROGRAMS / name] for name in SOUND]
        for words in programs:
            code, _, lines = self.check(*words, CPUHIP_REUSE='always')
            self.assertEqual(0, code, (words, lines))
            self.assertIn(': no stale addresses in ', lines[0])
            self.assertNotIn(' in 0 of ', lines[0])

    def test_it_ends_as_the_program_does(self):
        code, _, lines = self.check('sh', '-c', 'exit 7')
        self.assertEqual((7, 'graphpool: no HIP call was seen.', 'graphpool: nothing was checked'), (code, lines[0], lines[-1]))
        self.assertRegex(lines[1], '^  Either it makes none, or it ended with exit code 7 before its first one, or ')
        self.assertEqual(-15, self.check('sh', '-c', 'kill -15 $$')[0])

    def test_launches_that_it_cannot_look_at(self):
        lines = self.check(support.PROGRAMS / 'transformer', '--steps', '3', GRAPHPOOL_GRAPH_REUSE='false')[2]
        self.assertIn('  The other launches were not looked at: their graphs were left to the runtime.', lines)
        self.assertIn('  Counted here are captures, graphs, execs and updates that were left, not launches:', lines)
        self.assertRegex(lines[0], r': 0 of 3 launches of graphs were looked at, with no stale addresses$')

    def test_every_kind_has_its_words(self):
        schema = json.loads((support.TOP / 'shim' / 'report' / 'report.schema.json').read_text())
        stale = schema['properties']['check']['properties']['stale']['items']['properties']
        self.assertEqual(set(stale['why']['enum']), set(check.WHY))

    def test_refused(self):
        self.refused(2, 'check', says='which program?')
        self.refused(127, 'check', 'no-such-program', says='not found in PATH')
        self.refused(125, 'check', '--set', 'graph.slots=0', 'true', says='nothing was started')


if __name__ == '__main__':
    support.main()
