"""check.py: graphpool check -- PROGRAM: graphs that name memory which is not what they were captured with."""
import os
import shutil
import sys
import tempfile

from . import launch, policy, reports, run
from .options import Command, UsageError

# What looking needs: no memory is kept, so that nothing hides, and it is known who allocates and frees.
SETTINGS = {'GRAPHPOOL_GRAPH_CHECK': 'true', 'GRAPHPOOL_POOL_ENABLED': 'false', 'GRAPHPOOL_REPORT_CALLSITES': 'true'}
FOUND = 1

# What the report's words for it mean. A test walks those of report.schema.json.
WHY = {'freed': 'its memory was freed', 'reused': 'its memory was freed, and another allocation is there now',
       'unmapped': 'its memory was unmapped', 'other_device': 'it is the memory of another device than the kernel\'s',
       'beyond': 'it lies beyond the end of an allocation', 'nowhere': 'there is no memory'}


def where(report, stale):
    graph = next((graph for graph in report.graphs if graph['graph'] == stale['graph']), None)
    named = ' ({})'.format(reports.name_of(graph)) if graph else ''
    return 'graph {}{}, {}, {}argument {}'.format(stale['graph'], named, reports.place_of(stale),
                                                  'a word of ' if stale['hidden'] else '', stale['argument'])


def stale_lines(report, stale):
    lines = ['  {}: {} launch{}'.format(where(report, stale), stale['times'], '' if stale['times'] == 1 else 'es')]
    lines.append('    ' + WHY[stale['why']])
    for key, what in (('allocated_by', 'allocated by'), ('freed_by', 'freed by')):
        if key in stale:
            lines.append('    {} {}'.format(what, stale[key]))
    if stale['hidden']:
        lines.append('    it is a word in a structure, so it may be no address')
    return lines


def launches_of(report):
    return sum(report.data['calls'].get(name, 0) for name in ('hipGraphLaunch', 'hipGraphLaunch_spt'))


def tell(found):
    """Whether there was something to find."""
    any_stale = False
    for report in found:
        seen = report.data.get('check', {'launches': 0, 'stale': []})
        stale = '{} stale address{}'.format(len(seen['stale']) or 'no', '' if len(seen['stale']) == 1 else 'es')
        form = '{0}: {1} in {2} of {3} launches of graphs' if seen['launches'] == launches_of(report) else (
            '{0}: {2} of {3} launches of graphs were looked at, with {1}')
        run.say(form.format(report.name, stale, seen['launches'], launches_of(report)))
        for stale in seen['stale']:
            sys.stderr.write('\n'.join(stale_lines(report, stale)) + '\n')
        if seen['launches'] < launches_of(report):
            sys.stderr.write('  The other launches were not looked at: their graphs were left to the runtime.\n')
            sys.stderr.write('  Counted here are captures, graphs, execs and updates that were left, not launches:\n' if report.reasons() else '')
            for count, reason, _, noun in report.reasons()[:3]:
                sys.stderr.write('    {}: {}\n'.format(reports.counted(count, noun), reason))
        if not report.ended:
            sys.stderr.write('  It did not come to its end, so this is what was seen up to its last report.\n')
        any_stale = any_stale or bool(seen['stale'])
    return any_stale


def looked_at(words, folder):
    """Runs the program; -> (how it ended, whether something was found)."""
    words.report, words.verify, words.trace = folder, False, False
    environment, said, _, names, path = run.prepare(words)
    environment.update(SETTINGS)
    ended = launch.run(words.rest, environment)
    try:
        found = reports.find([folder])
    except reports.Unreadable:
        run.say_lines(run.no_report_lines(said, folder, names, ended, path))
        run.say('nothing was checked')
        return ended, False
    return ended, tell(found)


def check(words):
    if not words.rest:
        raise UsageError('which program? graphpool check -- PROGRAM [ARGUMENT...]')
    folder = tempfile.mkdtemp(prefix='graphpool-')
    try:
        ended, found = looked_at(words, folder)
    except run.REFUSALS as why:
        return run.refuse(why)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return FOUND if found else launch.end_like(ended)


COMMAND = Command(
    'check', '[OPTION...] [--] PROGRAM [ARGUMENT...]', 'finds graphs that name memory which is gone', check,
    policy.OPTIONS,
    details="""
    A graph keeps the addresses it was captured with. Before each launch the library looks whether their memory is still what it
    was: for operands of kernels, copies and fills, and for words in structures that look like an address. It finds memory that was
    freed or unmapped, memory of another device, and addresses beyond an allocation or where nothing is. It names kernel and
    argument, who allocated the memory and who freed it. The program computes what it would without. No memory is kept meanwhile, so
    that nothing hides. The program runs slower.

    It cannot see: graphs that the library left to the runtime (it says how many launches that were, and why); addresses that
    kernels read from memory; memory that was freed and handed out again between a capture and its instantiation; how far a kernel
    goes from an address; memory allocated below HIP. Addresses right at the end of an allocation are taken for ends. Memory of
    other devices is found for kernels only, for hipMalloc only, and where no peer access was ever enabled.

    Exit code: 1 something was found; else the program's own, or as for run where it was not started.""",
    examples=[('graphpool check -- python3 train.py --steps 20', 'a few steps are enough where each does the same')],
    program=True)
