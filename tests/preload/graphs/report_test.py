#!/usr/bin/env python3
"""report_test.py HOST LIBRARY RUNTIME: the report of report_host, field by field; and its summary line."""
import datetime
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'support'))
import runs  # noqa: E402

FAILURES = []


def expect(what, wanted, found):
    if wanted != found:
        FAILURES.append(f'{what}: {found}, not {wanted}')


def run(host, library, runtime, **environment):
    environment = dict({'GTEST_FILTER': 'Report.host'}, **environment)
    done = runs.run([host], runtime=runtime, preload=[library], report=True, environment=environment)
    expect('exit code', 0, done.code)
    if done.code != 0:
        print(done.stdout, done.stderr)
    return done


def check_template(found, wanted):
    for key, value in wanted.items():
        expect(f'graph {found["graph"]}: {key}', value, found.get(key))


def main(host, library, runtime):
    done = run(host, library, runtime, GRAPHPOOL_LOG_LEVEL='info', GRAPHPOOL_REPORT_CALLSITES='true',
               OMPI_COMM_WORLD_RANK='5')
    report = done.report
    expect('rank', '5', report['rank'])
    expect('host', socket.gethostname(), report['host'])
    expect('waiting', [], report['waiting'])
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(report['time'][:-1] + '+00:00')
    if not datetime.timedelta(0) <= age < datetime.timedelta(hours=1) or report['process'] <= 1:
        FAILURES.append(f'time {report["time"]}, process {report["process"]}')
    graphs = report['graphs']
    for key, value in {'recordings': 3, 'recordings_dropped': 0, 'captures_recorded': 3, 'captures_avoided': 8,
                       'captures_refused': 0, 'instantiates': 10, 'instantiates_avoided': 6, 'updates': 1,
                       'updates_avoided': 1, 'launches': 11,
                       'launches_by_way': {'same': 7, 'patch': 0, 'new_exec': 4, 'one_shot': 0, 'stage': 0,
                                           'native_update': 0},
                       'mismatches': {'first': 0, 'middle': 1, 'last': 0, 'shorter': 1, 'longer': 0},
                       'refusals': []}.items():
        expect(f'graphs: {key}', value, graphs.get(key))

    # Why captures were made real, with the first operation that no recording had.
    wanted = [
        {'reason': 'an operation differs from every recording', 'count': 1, 'graph': 1, 'operation': 2,
         'kind': 'kernel', 'kernel': 'join', 'differs': 'function'},
        {'reason': 'the capture ended before its recording', 'count': 1, 'operation': 2, 'kind': 'end',
         'differs': 'kind'},
        {'count': 1, 'graph': 1},
    ]
    found = graphs['materialisations']
    expect('materialisations', len(wanted), len(found))
    for want, have in zip(wanted, found):
        for key, value in want.items():
            expect(f'materialisation {have.get("reason")}: {key}', value, have.get(key))

    # What the estimates are made of: measured where the engine has made such calls.
    for name, measured in {'capture_node': False, 'build_node': True, 'instantiate_node': True,
                           'first_launch_node': True, 'patch_node': False, 'copy': False, 'copy_kib': False}.items():
        expect(f'cost {name} measured', measured, graphs['costs'][name]['measured'])
        if graphs['costs'][name]['picoseconds'] <= 0 and not measured:
            FAILURES.append(f'cost {name} is nothing')

    first, second, third = report['recordings']
    check_template(first, {
        'graph': 1, 'operations': 3, 'variants': 2, 'captures': 1, 'captures_avoided': 7, 'materialised': 1,
        'instantiates': 2, 'instantiates_avoided': 5, 'updates_avoided': 1, 'bindings': 2, 'volatile_words': 0,
        'patched_nodes': 0, 'execs_replaced': 0, 'execs_evicted': 0, 'bytes_staged': 0, 'captures_verified': 0,
        'launches_verified': 0, 'differences': 0, 'operands_moved_others': 0})
    expect('launches by way', {'same': 6, 'patch': 0, 'new_exec': 2, 'one_shot': 0, 'stage': 0, 'native_update': 0}, first['launches'])
    check_template(second, {'graph': 2, 'operations': 2, 'variants': 1, 'captures': 1, 'captures_avoided': 1})
    check_template(third, {'graph': 3, 'operations': 1, 'variants': 1, 'captures': 1, 'captures_avoided': 0})
    for recording in report['recordings']:
        if recording['device_bytes'] < 128 * 1024 or recording['host_bytes'] <= 0:
            FAILURES.append(f'no memory: {recording}')
        if recording is not third and recording['estimated_ns_saved'] <= 0:
            FAILURES.append(f'nothing saved: {recording}')
    expect('time saved', sum(t['estimated_ns_saved'] for t in report['recordings']) // 1000,
           graphs['estimated_ns_saved'] // 1000)

    # Which operands moved, and who allocated the memory they moved to.
    moved = [{key: value for key, value in each.items() if key not in ('allocated_by', 'rule')}
             for each in first['operands_moved']]
    expect('operands moved', [
        {'operation': 1, 'kind': 'kernel', 'kernel': 'mix', 'argument': 0, 'times': 7},
        {'operation': 3, 'kind': 'copy', 'argument': 1, 'times': 7}], moved)
    for each in first['operands_moved']:
        expect('rule', 'default', each.get('rule'))
        if 'allocate_moving' not in each.get('allocated_by', '').split(' < ')[0]:
            FAILURES.append(f'allocated by {each.get("allocated_by")}')
    expect('what does not move', [], second['operands_moved'])

    # Memory: the three buffers were freed and are kept.
    kept = report['memory']['kept']
    expect('devices', [0], [each['device'] for each in kept])
    expect('kept', (3, 3 * 4096, 3 * 4096, 0),
           tuple(kept[0][key] for key in ('blocks', 'bytes', 'peak_bytes', 'chunks')))
    expect('slots', {'sets': 0, 'slots': 0, 'bytes': 0, 'peak_bytes': 0}, report['memory']['slots'])
    execs = report['memory']['execs']
    expect('memory of execs', [(0, sum(t['device_bytes'] for t in report['recordings']))],
           [(each['device'], each['estimated_bytes']) for each in execs])
    if execs[0]['estimated_peak_bytes'] < execs[0]['estimated_bytes']:
        FAILURES.append(f'peak: {execs}')

    summary = [line for line in done.stderr.splitlines() if ' of host time saved' in line]
    expect('lines of summary', 1, len(summary))
    for text in ('captures 8 of 11 served, instantiates 6 of 10; 11 launches; about ', ' ms of host time saved, an estimate'):
        if text not in summary[0]:
            FAILURES.append(f'{text!r} is not in {summary[0]!r}')

    # Without call sites nobody is named; staged bytes and slots are counted.
    report = run(host, library, runtime, GRAPHPOOL_BUFFERS='[[buffer]]\nstage = "always"\n').report
    first = report['recordings'][0]
    expect('allocated by', [None, None], [each.get('allocated_by') for each in first['operands_moved']])
    expect('launches by way', 8, first['launches']['stage'])
    if first['bytes_staged'] <= 0 or report['memory']['slots']['peak_bytes'] <= 0:
        FAILURES.append(f'nothing staged: {first}, {report["memory"]["slots"]}')

    # A staged graph whose buffer stays has one exec more, over the buffer itself, until it moves.
    execs = {}
    for moves in ({}, {'STAYS_AND_MOVES': '1'}):
        report = run(host, library, runtime, GRAPHPOOL_BUFFERS='[[buffer]]\nstage = "always"\n',
                     GTEST_FILTER='Report.stays', **moves).report
        first = report['recordings'][0]
        expect('launches by way', 40, first['launches']['stage'])
        expect('staged launches', 40, first['staged_launches'])
        for name, value in {'instantiates': 1, 'instantiates_avoided': 0, 'updates_avoided': 41 if moves else 40}.items():
            expect(name, value, report['graphs'][name])
        if not 0 < first['launches_without_copies'] < 40:
            FAILURES.append(f'launches without copies: {first}')
        expect('bytes staged', (40 - first['launches_without_copies']) * 2 * 400, first['bytes_staged'])
        expect('memory of execs', first['device_bytes'], report['memory']['execs'][0]['estimated_bytes'])
        execs[bool(moves)] = first['device_bytes'] - first['slot_bytes']
    expect('memory of execs while a buffer stays', 2 * execs[True], execs[False])

    # Updates are served on any device that is graph's, exec's and current.
    for device in ('0', '1'):
        report = run(host, library, runtime, GTEST_FILTER='Report.stays', CPUHIP_DEVICES='2', ON_DEVICE=device).report
        expect(f'updates avoided on device {device}', 40, report['graphs']['updates_avoided'])

    # A recording goes with the module whose kernels it has. What it did is told all the same, with the kernels' names.
    report = run(host, library, runtime, GTEST_FILTER='Report.unloads').report
    expect('recordings of a module that is gone', (0, 1),
           (report['graphs']['recordings'], report['graphs']['recordings_dropped']))
    first = report['recordings'][0]
    for key, value in {'dropped': 'a module with a kernel of it was unloaded', 'captures_avoided': 3, 'variants': 0,
                       'device_bytes': 0}.items():
        expect(f'{key} of a recording whose module is gone', value, first[key])
    expect('kernel of a module that is gone', [('leaving', 0, 3)],
           [(each.get('kernel'), each['argument'], each['times']) for each in first['operands_moved']])
    expect('refusals', [('a module was unloaded during the capture', 1)],
           [(told['reason'], told['count']) for told in report['graphs']['refusals']])

    # Whatever is left to the runtime has a reason.
    graphs = run(host, library, runtime, GTEST_FILTER='Report.left').report['graphs']
    for key, wanted in {
            'refusals': {'hipGraphRemoveDependencies': 1, 'hipGraphDestroyNode': 1, 'a copy of a graph that is real': 1,
                         'a node was added after its first use': 1},
            'left_to_runtime': {'a graph that the program has changed was instantiated': 1,
                                'instantiated with flags or parameters of its own': 1, 'hipGraphNodeSetEnabled': 1,
                                'an update of an exec that the program has reached otherwise': 1,
                                'an update by a graph of another recording, for the first time': 1,
                                'an update that the runtime refused': 1},
            'materialisations': {"captured on a null stream, or on a thread's own": 1}}.items():
        found = {}
        for told in graphs[key]:
            found[told['reason']] = found.get(told['reason'], 0) + told['count']
        for reason, count in wanted.items():
            expect(f'{key}: {reason}', count, found.get(reason, 0))
    expect('graphs refused', sum(told['count'] for told in graphs['refusals']), graphs['captures_refused'])

    # Why graphs are not staged where a rule says that they should be.
    report = run(host, library, runtime, GRAPHPOOL_BUFFERS='[[buffer]]\nstage = "always"\n',
                 GTEST_FILTER='Report.not_staged').report
    shared = 'memory that it names can be reached by other processes'
    expect('why graphs are not staged',
           ['it has host operations', shared, 'it has kernels of a communication library', shared, None, None],
           [each.get('not_staged') for each in report['recordings']])
    expect('staged launches', [0, 0, 0, 1, 1, 1], [each['launches']['stage'] for each in report['recordings']])

    # Patches, an exec that is worn out, verified captures.
    first = run(host, library, runtime, GRAPHPOOL_GRAPH_STRATEGY='patch').report['recordings'][0]
    if first['patched_nodes'] <= 0 or first['launches']['patch'] <= 0:
        FAILURES.append(f'nothing patched: {first}')
    first = run(host, library, runtime, GRAPHPOOL_GRAPH_STRATEGY='patch',
                GRAPHPOOL_GRAPH_PATCH_BUDGET='2').report['recordings'][0]
    if first['execs_replaced'] <= 0:
        FAILURES.append(f'nothing replaced: {first}')
    first = run(host, library, runtime, GRAPHPOOL_GRAPH_VERIFY='first:2').report['recordings'][0]
    # More than two, for recordings that begin alike share the captures that take the real path.
    if first['captures_verified'] < 2 or first['differences'] != 0:
        FAILURES.append(f'not verified: {first}')
    first = run(host, library, runtime, GRAPHPOOL_GRAPH_VARIANTS='1').report['recordings'][0]
    if first['execs_evicted'] <= 0:
        FAILURES.append(f'nothing evicted: {first}')
    report = run(host, library, runtime, GRAPHPOOL_GRAPH_RECORDINGS='1').report
    dropped = report['graphs']['recordings_dropped']
    if dropped <= 0:
        FAILURES.append('nothing dropped')
    expect('recordings that were dropped', dropped,
           sum(each.get('dropped') == 'others were used later, and there were too many' for each in report['recordings']))

    print('\n'.join(FAILURES) or 'every field is as expected')
    return 1 if FAILURES else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
