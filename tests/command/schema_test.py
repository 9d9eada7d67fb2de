"""shim/report/report.schema.json: reports of programs are as it says, and it says something of every key.

A validator of the few words of JSON Schema that the file uses, for there is none in the standard library."""
import json
import re

import support

TYPES = {'object': dict, 'array': list, 'string': str, 'integer': int, 'boolean': bool}
WORDS = {'$schema', 'title', 'type', 'description', 'properties', 'required', 'additionalProperties', 'items', 'minimum', 'enum',
         'const', 'pattern'}


def faults(schema, value, place='report'):
    assert set(schema) <= WORDS, set(schema) - WORDS
    if not isinstance(value, TYPES[schema['type']]) or (isinstance(value, bool) != (schema['type'] == 'boolean')):
        return ['{}: {!r} is no {}'.format(place, value, schema['type'])]
    found = []
    if 'const' in schema and value != schema['const'] or value not in schema.get('enum', [value]):
        found.append('{}: {!r}'.format(place, value))
    if value < schema['minimum'] if 'minimum' in schema else False:
        found.append('{}: {!r} is less than {}'.format(place, value, schema['minimum']))
    if 'pattern' in schema and not re.search(schema['pattern'], value):
        found.append('{}: {!r} is not like {}'.format(place, value, schema['pattern']))
    if schema['type'] == 'array':
        for i, item in enumerate(value):
            found += faults(schema['items'], item, '{}[{}]'.format(place, i))
    if schema['type'] == 'object':
        known, others = schema.get('properties', {}), schema['additionalProperties']
        found += ['{}: {} is missing'.format(place, key) for key in schema.get('required', []) if key not in value]
        for key, item in value.items():
            if key in known or others:
                found += faults(known.get(key, others), item, '{}.{}'.format(place, key))
            else:
                found.append('{}: {} is not in the schema'.format(place, key))
    return found


def parts(schema):
    yield schema
    inner = list(schema.get('properties', {}).values()) + [schema[key] for key in ('items', 'additionalProperties')
                                                            if isinstance(schema.get(key), dict)]
    for part in inner:
        yield from parts(part)


class Schema(support.CommandTest):
    SCHEMA = json.loads((support.TOP / 'shim/report/report.schema.json').read_text())

    def test_reports_are_as_it_says(self):
        staged = self.file('staged.toml', '[[buffer]]\nstage = "always"\n')
        for program, words in (('transformer', ['--set', 'report.callsites=true']), ('batch_sizes', ['--set', 'graph.verify=first:2']),
                               ('transformer', ['--policy', staged])):
            self.assertEqual(0, self.graphpool('run', '--quiet', *words, '--', support.PROGRAMS / program)[0])
        self.assertEqual(0, self.graphpool('run', '--quiet', '--', *self.python(''), GRAPHPOOL_TRACE=self.folder / 't')[0])
        found = self.reports()
        self.assertEqual(4, len(found))
        for report in found:
            self.assertEqual([], faults(self.SCHEMA, report))
        self.assertEqual(1, sum('trace' in report for report in found))
        self.assertTrue(any(graph.get('staged_launches') for report in found for graph in report['recordings']))

    def test_the_head(self):
        self.assertEqual(0, self.graphpool('run', '--quiet', '--set', 'graph.slots=2', '--', support.PROGRAMS / 'transformer',
                                           '--steps', '3')[0])
        report = self.reports()[0]
        self.assertEqual([str(support.PROGRAMS / 'transformer'), '--steps', '3'], report['command'])
        self.assertEqual((support.TOP / 'VERSION').read_text().strip(), report['version'])
        self.assertRegex(report['runtime']['version'], r'^\d+\.\d+\.\d+$')
        self.assertIn({'key': 'graph.slots', 'value': '2', 'from': 'environment GRAPHPOOL_GRAPH_SLOTS'}, report['policy'])
        self.assertEqual({'part': 2, 'of': 3}, report['rates']['captures_served'])
        self.assertEqual(3, report['samples'][-1]['launches'])

    def test_launches_over_time_are_all_launches(self):
        self.assertEqual(0, self.graphpool('run', '--quiet', '--set', 'report.every=50ms', '--set', 'graph.slots=2', '--',
                                           support.PROGRAMS / 'batch_sizes')[0])
        report = self.reports()[0]
        self.assertGreater(len(report['recordings']), 1)
        for graph in report['recordings']:
            course = dict(graph['launches_over_time'])
            places = course.pop('sample')
            self.assertEqual(sorted(set(places)), places)
            self.assertLess(places[-1], len(report['samples']))
            self.assertEqual({way: count for way, count in graph['launches'].items() if count},
                             {way: sum(counts) for way, counts in course.items()})
            self.assertEqual({len(places)}, set(map(len, course.values())))

    def test_it_finds_faults(self):
        self.assertEqual(0, self.graphpool('run', '--quiet', '--', *self.python(''))[0])
        report = self.reports()[0]
        for change, says in (({'format': 2}, 'report.format: 2'), ({'new': 1}, 'new is not in the schema'),
                             ({'process': 'x'}, "'x' is no integer"), ({'ended': 1}, '1 is no boolean'),
                             ({'time': 'now'}, 'is not like'), ({'elapsed_ms': -1}, 'is less than 0')):
            self.assertIn(says, '\n'.join(faults(self.SCHEMA, dict(report, **change))))
        del report['rates']
        self.assertEqual(['report: rates is missing'], faults(self.SCHEMA, report))

    def test_every_key_is_described(self):
        for part in parts(self.SCHEMA):
            self.assertTrue(part.get('description'), part)


if __name__ == '__main__':
    support.main()
