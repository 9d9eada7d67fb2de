"""The page of graphpool report --html: it needs nothing else, its tags are closed, what programs say is no markup."""
import html.parser
import json
import re

import support
from graphpool import page

EMPTY = {'meta', 'br', 'line', 'polyline', 'rect'}


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.texts, self.links = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ('src', 'href')]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, 'closed {} in {}'.format(tag, self.open)
        self.open.pop()

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


class PageTest(support.CommandTest):
    def setUp(self):
        super().setUp()
        code, _, errors = self.graphpool('run', '--quiet', '--set', 'graph.slots=2', '--', support.PROGRAMS / 'batch_sizes')
        self.assertEqual(0, code, errors)
        self.report = self.reports()[0]

    def page(self, *reports):
        for i, report in enumerate(reports):
            self.file('r/{}.json'.format(i), json.dumps(report))
        self.assertEqual(0, self.graphpool('report', 'r', '--html', 'page.html')[0])
        text = (self.folder / 'page.html').read_text()
        tags = Tags()
        tags.feed(text)
        self.assertEqual([], tags.open)
        return text, tags

    def with_course(self):
        self.report['samples'] = [{'ms': i * 1000, 'captures': i * 9, 'captures_served': max(0, i * 9 - 8), 'launches': i * 9,
                                   'kept_bytes': i % 3 * 1048576,
                                   'launches_by_way': {'same': i * 8, 'patch': i}} for i in range(30)]
        for graph in self.report['recordings']:
            graph['launches_over_time'] = {'sample': [0, 2, 3, 20], 'same': [4, 6, 0, 1], 'patch': [0, 2, 5, 0]}
        return self.report


class Page(PageTest):
    def test_it_needs_nothing_else(self):
        text, tags = self.page(self.with_course())
        self.assertEqual([], tags.links)
        self.assertNotIn('script', tags.seen)
        self.assertIsNone(re.search(r'https?:|url\(|@import', text))
        self.assertIn('prefers-color-scheme: dark', text)
        self.assertIn('width=device-width', text)
        graphs = len(self.report['recordings'])
        self.assertGreater(graphs, 1)
        self.assertEqual((4 + graphs, 2 * 29 + 4 * graphs), (tags.seen.count('svg'), tags.seen.count('rect')))
        self.assertEqual(graphs, text.count('class="strip"'))
        words = ' '.join(' '.join(tags.texts).split())
        for part in ('of 15 captures served', 'Capture once per shape, or pad to few shapes.', 'graph.slots', 'Compile permits'):
            self.assertIn(part, words)

    def test_time_and_ways_between_samples(self):
        def sample(ms, launches, same):
            return {'ms': ms, 'launches': launches, 'launches_by_way': {'same': same, 'patch': launches - same}}

        steps = page.steps_of([sample(0, 0, 0), sample(1000, 10, 6), sample(2000, 10, 6), sample(3000, 30, 26)])
        self.assertEqual([(0, 1000, 100, 6, 4), (2000, 3000, 50, 20, 0)],
                         [(step['from_ms'], step['ms'], step['step_ms'], step['ways']['same'], step['ways']['patch']) for step in steps])
        drawn = page.ways_chart(steps, 3000)
        self.assertIn('<rect class="same" x="0.0" y="0.0" width="200.0" height="84.0"/>', drawn)
        self.assertIn('<rect class="patch" x="0.0" y="84.0" width="200.0" height="56.0"/>', drawn)
        self.assertEqual(3, drawn.count('<rect'))
        for old in steps:
            old['ways'] = {}
        self.assertEqual('', page.ways_chart(steps, 3000))

    def test_what_served_one_graph_over_time(self):
        samples = [{'ms': ms} for ms in (500, 1000, 2000)]
        graph = {'launches_over_time': {'sample': [0, 2], 'same': [3, 1], 'stage': [0, 3]}}
        self.assertEqual([(0, 500, {'same': 3, 'stage': 0}), (1000, 2000, {'same': 1, 'stage': 3})],
                         [(step['from_ms'], step['ms'], step['ways']) for step in page.steps_of_graph(graph, samples)])
        drawn = page.strip(graph, samples)
        self.assertIn('<rect class="same" x="0.0" y="0.0" width="150.0" height="20.0"/>', drawn)
        self.assertIn('<rect class="stage" x="300.0" y="5.0" width="300.0" height="15.0"/>', drawn)
        self.assertEqual(3, drawn.count('<rect'))
        self.assertEqual('', page.strip({}, samples))
        self.assertEqual('', page.strip(graph, samples[:2]))

    def test_what_programs_say_is_no_markup(self):
        self.report['command'] = ['<b>x</b>']
        self.report['recordings'][0].update(first_kernel='k<int, 3>', last_kernel='"&')
        self.report['host'] = '<i>'
        text, tags = self.page(self.report, self.report)
        self.assertIn('k&lt;int, 3&gt; .. &quot;&amp;', text)
        self.assertNotIn('<i>', text)
        self.assertNotIn('<b>x', text)

    def test_many_processes_and_an_old_report(self):
        for key in ('samples', 'format', 'command', 'policy', 'devices', 'elapsed_ms', 'runtime', 'version'):
            self.report.pop(key, None)
        text, tags = self.page(*[self.report] * 70)
        self.assertIn('and 6 processes more', text)
        self.assertEqual(70 + 1, tags.seen.count('tr') - text.count('<th>policy'))


if __name__ == '__main__':
    support.main()
