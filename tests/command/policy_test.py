"""graphpool policy check and show, and every way a policy is refused."""
import json
import re

import support

KEYS = len(re.findall(r'^POLICY_(?:TOP|KEY)\(', (support.TOP / 'policy' / 'policy_keys.def').read_text(), re.MULTILINE))


class Check(support.CommandTest):
    def check(self, *words, **variables):
        code, output, errors = self.graphpool('policy', 'check', *words, **variables)
        self.assertEqual('', errors)
        return code, output

    def test_a_good_policy(self):
        self.file('p.toml', '[graph]\nslots = 2\n[[buffer]]\nname = "a"\n')
        self.assertEqual((0, 'p.toml: ok, 1 set, {} left at the default, 1 buffer rule\n'.format(KEYS - 1)),
                         tuple(self.check('p.toml')[0:1]) + (self.check('p.toml')[1].split('/')[-1],))
        self.assertRegex(self.check()[1], r'^no policy file: ok, 0 set, .*, no buffer rules\n$')
        self.assertIn('no policy file: ok, 0 set', self.check(GRAPHPOOL_GRAPH_SLOTS='')[1])
        self.assertIn('ok, 1 set', self.check('--policy=p.toml')[1])
        self.assertIn('ok, 2 set', self.check('p.toml', '--set', 'graph.variants=3')[1])

    def test_a_bad_one(self):
        self.file('p.toml', '[graph]\nreuze = true\nslots = 0\n')
        code, output = self.check('p.toml')
        self.assertEqual(1, code)
        lines = output.splitlines()
        self.assertIn('p.toml:2:1: unknown key "reuze", did you mean "reuse"?; allowed: ', lines[0])
        self.assertIn('p.toml:3:9: graph.slots: bad value "0"; allowed: an integer from 1 to 64', lines[1])
        self.assertIn('not usable; a program would run as without the library', lines[2])
        self.assertTrue(all(line.startswith('error: ') for line in lines[:2]))

    def test_warnings(self):
        code, output = self.check(GRAPHPOOL_LOG_LEVEL='verbose', GRAPHPOOL_GRAPH_STRATEGI='patch')
        self.assertEqual(0, code)
        self.assertIn('warning: environment GRAPHPOOL_LOG_LEVEL: log.level: bad value "verbose"; allowed: off, ', output)
        self.assertIn('did you mean GRAPHPOOL_GRAPH_STRATEGY?', output)

    def test_the_environments_policy(self):
        path = self.file('p.toml', 'enabled = 3\n')
        self.assertEqual(1, self.check(GRAPHPOOL_POLICY=path)[0])
        self.assertIn('cannot read /nowhere.toml: no such file', self.check(GRAPHPOOL_POLICY='/nowhere.toml')[1])

    def test_wrong_words(self):
        for kind in ('check', 'show'):
            self.refused(2, 'policy', kind, 'nowhere.toml', says='{}: nowhere.toml: no such file'.format(kind))
            self.refused(2, 'policy', kind, '/', says='{}: /: it is a folder'.format(kind))
            self.refused(2, 'policy', kind, 'a', 'b', says='one policy file at a time')
            self.refused(2, 'policy', kind, '--policy', 'a', 'b', says='one policy file at a time')
            self.refused(2, 'policy', kind, '--set', 'graph.slots', says='as in --set pool.limit=4GiB')
            self.refused(2, 'policy', kind, '--set', 'graph.slot=1', says='unknown key, did you mean graph.slots?')

    def test_without_its_reader(self):
        self.refused(125, 'policy', 'check', GRAPHPOOL_BUILD=self.folder, says='graphpool-policy is not there: run scripts/build first')
        tool = self.file('command/graphpool-policy', '#!/bin/sh\nexit 3\n')
        tool.chmod(0o755)
        self.refused(125, 'policy', 'check', GRAPHPOOL_BUILD=self.folder, says='ends with code 3 and says nothing')


class Show(support.CommandTest):
    def show(self, *words, **variables):
        code, output, errors = self.graphpool('policy', 'show', *words, **variables)
        self.assertEqual((0, ''), (code, errors))
        return output

    def test_values_and_where_they_came_from(self):
        path = self.file('p.toml', '[graph]\nslots = 2\nvariants = 4\n[[buffer]]\nstage = "always"\n')
        output = self.show('p.toml', '--changed', '--set', 'graph.slots=3', GRAPHPOOL_POOL_LARGE='2GiB')
        rows = {line.split()[0]: line for line in output.splitlines()}
        self.assertEqual({'pool.large', 'graph.slots', 'graph.variants', 'buffer'}, set(rows))
        self.assertIn(' 3  ', rows['graph.slots'])
        self.assertTrue(rows['graph.slots'].endswith('--set graph.slots'))
        self.assertTrue(rows['graph.variants'].endswith('{}:3:12'.format(path)))
        self.assertTrue(rows['pool.large'].endswith('environment GRAPHPOOL_POOL_LARGE'))
        self.assertIn('buffer 1: stage', output)

    def test_warnings_are_not_in_the_table(self):
        code, output, errors = self.graphpool('policy', 'show', '--changed', GRAPHPOOL_LOG_LEVEL='verbose')
        self.assertEqual((0, 'every key has its default\n'), (code, output))
        self.assertIn('graphpool: warning: environment GRAPHPOOL_LOG_LEVEL: log.level: bad value "verbose"', errors)

    def test_all_keys_and_none(self):
        self.assertEqual(KEYS, len(self.show().splitlines()))
        self.assertEqual('every key has its default\n', self.show('--changed'))

    def test_json(self):
        values = json.loads(self.show('--json', '--changed', '--set=graph.slots=2'))['values']
        self.assertEqual([('graph.slots', '2', '1')], [(each['key'], each['value'], each['default']) for each in values])

    def test_a_bad_policy(self):
        self.file('p.toml', 'nonsense\n')
        self.refused(1, 'policy', 'show', 'p.toml', says='p.toml:1:')


if __name__ == '__main__':
    support.main()
