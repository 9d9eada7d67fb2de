"""The page of graphpool report --html: it needs nothing else, its tags are closed, what programs say is no markup."""
import html.parser
import json
import re

import support

EMPTY = {'meta', 'br', 'line', 'polyline'}


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
                                   'kept_bytes': i % 3 * 1048576} for i in range(30)]
        return self.report


class Page(PageTest):
    def test_it_needs_nothing_else(self):
        text, tags = self.page(self.with_course())
        self.assertEqual([], tags.links)
        self.assertNotIn('script', tags.seen)
        self.assertIsNone(re.search(r'https?:|url\(|@import', text))
        self.assertIn('prefers-color-scheme: dark', text)
        self.assertIn('width=device-width', text)
        self.assertEqual(3, tags.seen.count('svg'))
        words = ' '.join(' '.join(tags.texts).split())
        for part in ('of 15 captures served', 'Capture once per shape, or pad to few shapes.', 'graph.slots', 'Compile permits'):
            self.assertIn(part, words)

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
