"""graphpool report: the table of one report, of many ranks, as JSON, and what it refuses."""
import json

import support
from graphpool import reports, tables


class Table(support.CommandTest):
    def many(self, ranks):
        """The reports of so many ranks; rank 2 is unlike the others."""
        self.assertEqual(0, self.graphpool('run', '--quiet', '--', support.PROGRAMS / 'transformer', '--steps', '5')[0])
        report = self.reports()[0]
        (self.folder / 'ranks').mkdir()
        for rank in range(ranks):
            report['rank'] = str(rank)
            report['graphs']['captures_avoided'] = 0 if rank == 2 else 4
            report['graphs']['launches'] = 1 if rank == 2 else 5
            report['graphs']['estimated_ns_saved'] = 900000 if rank == 1 else 100000  # an estimate is not judged
            report['elapsed_ms'] = 170 if rank == 2 else 84
            self.file('ranks/r{}.json'.format(rank), json.dumps(report))
        self.file('ranks/other.json', '{"something": "else"}')

    def test_one(self):
        self.many(1)
        code, output, errors = self.graphpool('report', 'ranks')
        self.assertEqual((0, ''), (code, errors))
        self.assertIn('  captures 4 of 5 served (80.0 %)', output)

    def test_many_in_the_order_of_ranks_with_outliers(self):
        self.many(12)
        code, output, errors = self.graphpool('report', 'ranks')
        self.assertEqual((0, ''), (code, errors))
        rows = output.splitlines()[1:13]
        self.assertEqual([str(rank) for rank in range(12)], [row.split()[1] for row in rows])
        self.assertEqual([2], [i for i, row in enumerate(rows) if ' !' in row])
        self.assertIn('  170.0 ms !  ', rows[2])
        self.assertEqual('! differs much from the others', output.splitlines()[13])

    def test_files_as_json(self):
        self.many(3)
        output = self.graphpool('report', '--json', 'ranks/r0.json', 'ranks/r2.json')[1]
        self.assertEqual([('0', 'ranks/r0.json'), ('2', 'ranks/r2.json')],
                         [(each['rank'], each['path']) for each in json.loads(output)])

    def test_a_page(self):
        self.many(2)
        code, output, errors = self.graphpool('report', 'ranks', '--html', 'p.html')
        self.assertEqual((0, ''), (code, output))
        self.assertIn('wrote {}'.format(self.folder / 'p.html'), errors)
        self.assertTrue((self.folder / 'p.html').exists())
        self.refused(1, 'report', 'ranks', '--html', 'no/p.html', says='no/p.html: No such file or directory')

    def test_damaged_reports_are_named(self):
        self.many(1)
        self.file('ranks/graphpool-x.json', '{')
        code, output, errors = self.graphpool('report', 'ranks')
        self.assertEqual((0, 'graphpool: passed over ranks/graphpool-x.json: not a report (not JSON)\n'), (code, errors))

    def test_a_trace_is_named_as_one(self):
        self.refused(1, 'report', self.file('x.json', '{"traceEvents": []}'), says='x.json: a trace; ui.perfetto.dev or speedscope')
        self.refused(1, 'report', '/dev/null', says='/dev/null: empty: no report was written to it')

    def test_letters_that_stdout_does_not_have(self):
        self.many(1)
        (self.folder / 'ranks').rename(self.folder / 'r\u00e9')
        code, output, errors = self.graphpool('explain', 'r\u00e9', PYTHONIOENCODING='ascii:strict')
        self.assertEqual((0, ''), (code, errors))
        self.assertIn('(r\\xe9/', output)
        code, _, errors = self.graphpool('report', 'n\u00f6', PYTHONIOENCODING='ascii:strict')
        self.assertEqual((1, 'graphpool: n\\xf6: No such file or directory\n'), (code, errors))

    def test_stdout_that_is_full_or_closed(self):
        self.many(1)
        for words in (['report', 'ranks'], ['explain', 'ranks'], ['policy', 'show'], ['--help'], ['run', '--help']):
            for where, said in (('>/dev/full', (1, 'graphpool: stdout: No space left on device\n')), ('>&-', (0, ''))):
                code, _, errors = self.finish(self.start('-c', '"$@" ' + where, 'sh', support.COMMAND, *words, command='/bin/sh'))
                self.assertEqual(said, (code, errors))

    def test_refused(self):
        self.refused(2, 'report', '--html', 'x.html', '--json', 'nowhere', says='--html and --json: only one of them')
        self.refused(2, 'report', says='which report?')
        self.refused(1, 'report', 'nowhere', says='nowhere: No such file or directory')
        self.refused(1, 'report', self.file('x.json', 'x'), says='x.json: not a report')


class Figures(support.CommandTest):
    def test_outliers(self):
        self.assertEqual([False] * 4, tables.outliers([1, 1, 1, 1]))
        self.assertEqual([False, False, True, False], tables.outliers([10, 10.1, 20, 9.9]))
        self.assertEqual([False, False], tables.outliers([1, 100]))
        self.assertEqual([False, False, True], tables.outliers([0, 0, 5]))
        self.assertEqual([False, False, False], tables.outliers([80, 80, 95], 0.5))

    def test_time_saved(self):
        report = type('', (), {'costs': 7, 'costs_measured': 7})

        def line(saved_ms):
            report.saved_ms = saved_ms
            return tables.saved_line(report)

        self.assertEqual('  saved    about 2.0 ms of host time: an estimate (from costs measured here)', line(2))
        self.assertEqual('  cost     about 0.1 ms of host time more than it saved: an estimate (from costs measured here)', line(-0.1))
        self.assertEqual([line(0)] * 2, [line(0.01), line(-0.01)])
        self.assertIn('next to no host time', line(0))

    def test_what_was_counted(self):
        self.assertEqual(['1 capture', '16 execs or updates', '2 processes'], [reports.counted(1, 'capture'),
                         reports.counted(16, 'exec or update'), reports.counted(2, 'process')])

    def test_numbers(self):
        self.assertEqual(['0 B', '1.5 KiB', '2.0 GiB', '2048.0 GiB'], [tables.size(each) for each in (0, 1536, 2 << 30, 2 << 40)])
        self.assertEqual(['-', '12.5 ms', '2.0 s', '11 min'], [tables.time_text(each) for each in (None, 12.5, 2000, 660000)])
        self.assertEqual(('-', '50.0 %'), (tables.percent(0, 0), tables.percent(1, 2)))

    def test_compilations(self):
        self.assertEqual([], tables.compile_lines({}))
        self.assertEqual(['  compile  1 compilation took a permit; none waited'], tables.compile_lines({'permits': 1, 'waited': 0}))
        self.assertEqual(['  compile  12 compilations took permits; 3 waited, 4.5 s in all'],
                         tables.compile_lines({'permits': 12, 'waited': 3, 'waited_ms': 4500}))


if __name__ == '__main__':
    support.main()
