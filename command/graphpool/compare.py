"""compare.py: graphpool compare -- PROGRAM: the program without and with the library by turns: is it faster, is its output the
same?"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from . import call_times, launch, places, policy, reports, run, tables
from .options import Command, Option, UsageError

DEFAULT_RUNS, DEFAULT_TIMED = 3, 1
LAST_LINES = 5


class Measured:
    """One run: how it ended, what it printed, how long it took."""

    def __init__(self, code, output, errors, wall_s, cpu_s):
        self.code, self.output, self.errors, self.wall_s, self.cpu_s = code, output, errors, wall_s, cpu_s


def once(command, path, environment):
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        child = subprocess.Popen([command[0]] + command[1:], executable=path, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=errors)
        try:
            status, used = os.wait4(child.pid, 0)[1:]
        except BaseException:
            child.kill()
            child.wait()
            raise
        wall_s = time.perf_counter() - began
        child.returncode = launch.Ended(status).code
        output.seek(0)
        errors.seek(0)
        return Measured(child.returncode, output.read(), errors.read().decode('utf-8', 'replace'), wall_s,
                        used.ru_utime + used.ru_stime)


def mean(values):
    return sum(values) / len(values)


def error_of_mean(values):
    """Half of the range in which the mean lies 19 times of 20, by the spread of few values; None for one."""
    if len(values) < 2:
        return None
    middle = mean(values)
    variance = sum((value - middle) ** 2 for value in values) / (len(values) - 1)
    factor = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}.get(len(values), 2.1)
    return factor * (variance / len(values)) ** 0.5  # Student's t for n - 1 degrees of freedom


def spread(values):
    return '{:.3f} s ({:.3f} to {:.3f})'.format(mean(values), min(values), max(values))


def difference(off, on):
    """(change, doubt) of the mean in per cent; the doubt is None for one run each."""
    errors = error_of_mean(off), error_of_mean(on)
    doubt = None if None in errors else 100 * (errors[0] ** 2 + errors[1] ** 2) ** 0.5 / mean(off)
    return 100 * (mean(on) - mean(off)) / mean(off), doubt


def verdict(off, on):
    """Whether the library made a difference that so few runs can tell."""
    change, doubt = difference(off, on)
    text = '{:+.1f} %'.format(change)
    if doubt is None:
        return text + '; one run each tells no spread: take -n 3'
    text += ' +- {:.1f}'.format(doubt)
    if abs(change) <= doubt:
        return text + ': no difference that {} runs each can tell'.format(len(on))
    return text + (': faster under the library' if change < 0 else ': slower under the library')


def output_verdict(off, on):
    """(same, sentence). same is None where it cannot be told."""
    codes = {each.code for each in off}, {each.code for each in on}
    if codes[0] != codes[1]:
        return False, 'exit code {} without, {} with the library'.format(
            ', '.join(map(str, sorted(codes[0]))), ', '.join(map(str, sorted(codes[1]))))
    natively = {each.output for each in off}
    if len(natively) > 1:
        return None, 'the output differs from run to run without the library, so it cannot be compared'
    if {each.output for each in on} != natively:
        return False, 'the output DIFFERS under the library'
    return True, 'the output is identical ({} bytes)'.format(len(off[0].output))


def native_outputs(words, native, off, on):
    """The native runs by which the output is judged: one that prints other bytes than the library's is run again."""
    if len(off) > 1 or off[0].output == on[0].output:
        return off
    sys.stderr.write('graphpool: the output differs: another run without the library tells whether it does so by itself\n')
    sys.stderr.flush()
    return off + [once(words.rest, launch.find(words.rest[0]), native)]


def turns(words, count, native, under):
    """Runs by turns; the one that begins changes, so that what warms up serves both alike."""
    path = launch.find(words.rest[0])
    found = {False: [], True: []}
    for i in range(count):
        for with_library in ((False, True) if i % 2 == 0 else (True, False)):
            done = once(words.rest, path, under if with_library else native)
            found[with_library].append(done)
            sys.stderr.write('graphpool: run {} of {} {}: {:.3f} s, exit code {}\n'.format(
                i + 1, count, 'with the library   ' if with_library else 'without the library', done.wall_s, done.code))
            sys.stderr.flush()
            if done.code != 0 and i == 0:
                tail = done.errors.strip().splitlines()[-LAST_LINES:]
                sys.stderr.write(''.join('    {}\n'.format(line) for line in tail))
    return found[False], found[True]


def time_calls(words, count, native, under, folder):
    """Runs that time HIP calls, by turns. -> (without, with the library)."""
    path = launch.find(words.rest[0])
    found = {False: call_times.Times(), True: call_times.Times()}
    for i in range(2 * count):
        with_library = i % 4 in (1, 2)
        files = os.path.join(folder, 'calls-{}'.format(i))
        os.mkdir(files)
        done = once(words.rest, path, call_times.environment(under if with_library else native, with_library, files))
        found[with_library].add(files, done.wall_s)
        sys.stderr.write('graphpool: timed {} of {} {}: exit code {}\n'.format(
            i // 2 + 1, count, 'with the library   ' if with_library else 'without the library', done.code))
        sys.stderr.flush()
    return found[False], found[True]


def can_time(words):
    """Whether the library that reads the clock is there. Raises places.Missing where the user asked for it."""
    try:
        places.timed_library()
    except places.Missing as why:
        if words.calls is not None:
            raise
        run.say('host time in HIP calls is left out: {}'.format(why))
        return False
    return True


def count_of(option, text, least, default):
    if text is None:
        return default
    if not text.isdigit() or not least <= int(text) <= 1000:
        raise UsageError('{} {}: a number of runs from {} to 1000'.format(option, text, least))
    return int(text)


def failures(runs):
    """How the program failed, in words; None: it did not."""
    failed = [each.code for each in runs if each.code]
    if not failed:
        return None
    return 'exit code {} in {} of {} runs'.format(', '.join(map(str, sorted(set(failed)))), len(failed), len(runs))


def print_result(off, on, sentence):
    print('\n'.join(tables.grid(('', 'wall time', 'CPU time'), [
        ('off', spread([each.wall_s for each in off]), spread([each.cpu_s for each in off])),
        ('on', spread([each.wall_s for each in on]), spread([each.cpu_s for each in on]))])))
    print('wall time  {}'.format(verdict([each.wall_s for each in off], [each.wall_s for each in on])))
    print('CPU time   {}'.format(verdict([each.cpu_s for each in off], [each.cpu_s for each in on])))
    print('output     {}'.format(sentence))
    if failures(off + on):
        print('program    it failed: {}'.format(failures(off + on)))


def figures(off, on, judged, times, found):
    """The result as --json prints it. judged: what output_verdict() says."""
    same, sentence = judged
    result = {'output': {'same': same, 'text': sentence}, 'failed': failures(off + on), 'runs': {}, 'change': {}, 'library': {
        'processes': len(found), 'captures': sum(each.captures for each in found),
        'captures_served': sum(each.captures_served for each in found)}}
    for name, runs in (('off', off), ('on', on)):
        result['runs'][name] = [{'wall_s': each.wall_s, 'cpu_s': each.cpu_s, 'exit_code': each.code} for each in runs]
    for key in ('wall_s', 'cpu_s'):
        percent, doubt = difference([getattr(each, key) for each in off], [getattr(each, key) for each in on])
        result['change'][key] = {'percent': percent, 'doubt_percent': doubt}
    if times:
        result['hip_calls'] = {'off': times[0].as_json(), 'on': times[1].as_json()}
    return result


def reports_in(folder):
    """Those of the runs under the library; none where no HIP call was seen."""
    try:
        return reports.find([folder])
    except reports.Unreadable:
        return []


def print_served(found):
    """Whether the library had anything to serve."""
    if not found:
        print('library    no report was written: no HIP call was seen, or a signal ended the program; graphpool run -- PROGRAM '
              'says which')
        return
    captures = sum(each.captures for each in found)
    served = sum(each.captures_served for each in found)
    print('library    {} of {} captures served ({}), by {} process{} of all its runs'.format(
        served, captures, tables.percent(served, captures), len(found), 'es' if len(found) > 1 else ''))


def environment_under(words, folder):
    """That of runs under the library, with reports in the folder."""
    words.report, words.verify, words.trace = folder, False, False
    under = run.prepare(words)[0]
    under['GRAPHPOOL_REPORT_EVERY'] = '0s'  # nothing is written while the clock runs
    return under


def compare(words):
    if not words.rest:
        raise UsageError('which program? graphpool compare -- PROGRAM [ARGUMENT...]')
    count = count_of('-n', words.n, 1, DEFAULT_RUNS)
    timed = count_of('--calls', words.calls, 0, DEFAULT_TIMED)
    native = {name: value for name, value in os.environ.items() if not name.startswith('GRAPHPOOL_')}
    folder = tempfile.mkdtemp(prefix='graphpool-')
    try:
        under = environment_under(words, os.path.join(folder, 'reports'))
        under_timed = environment_under(words, os.path.join(folder, 'timed'))
        timed = timed if timed and can_time(words) else 0
        off, on = turns(words, count, native, under)
        times = time_calls(words, timed, native, under_timed, folder) if timed else None
        found = reports_in(os.path.join(folder, 'reports'))
        judged = output_verdict(native_outputs(words, native, off, on), on)
        if words.json:
            print(json.dumps(figures(off, on, judged, times, found), indent=1))
        else:
            print_result(off, on, judged[1])
            print_served(found)
            if times:
                print('\n'.join(call_times.lines(*times)))
    except run.REFUSALS as why:
        return run.refuse(why)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if judged[0] is False or any(each.code for each in off) else 0


COMMAND = Command(
    'compare', '[OPTION...] [--] PROGRAM [ARGUMENT...]', 'runs a program without and with the library by turns', compare,
    [Option('-n', 'N', 'runs of each kind; default: {}'.format(DEFAULT_RUNS)),
     Option('--calls', 'N', 'more runs of each kind, which measure the host time in HIP calls; 0: none; default: {}'.format(
         DEFAULT_TIMED)),
     Option('--json', None, 'print the result as JSON')] + policy.OPTIONS,
    details="""
    Shows wall time and processor time of both kinds of runs, whether they differ by more than the spread, and whether the program
    printed the same bytes on stdout. Without the library means: not preloaded. The program's stdin is empty.

    Then one more run of each kind measures the host time in HIP calls: from the entry of each to its return, waits included, in all
    threads and processes. Here both kinds preload a library that reads the clock around each call; without the library means:
    it does nothing else. What the clock costs a call is told.

    Exit code: 0 the output is identical or cannot be compared, 1 it differs or the program fails, 125 to 127 as for run.""",
    examples=[('graphpool compare -- python3 train.py --steps 200', 'three runs each'),
              ('graphpool compare -n 10 --policy my.toml -- ./step', 'ten runs each, with a policy')],
    program=True)
