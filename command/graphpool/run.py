"""run.py: graphpool run -- PROGRAM: checks everything first, runs the program under the library, and tells what that did."""
import contextlib
import os
import re
import shlex
import socket
import stat
import sys
import tempfile
import textwrap
import time

from . import launch, places, policy, reports, tables
from .options import Command, Option, UsageError

FOLDER = 'graphpool-reports'
OWN_FAULT = 125
EVERY = '2s'
TRACE = '.trace.json'  # the end of a trace's name
MOST_TABLES = 3
MOST_ROWS = 20
WIDTH = 100
RANKS = ('OMPI_COMM_WORLD_RANK', 'PMI_RANK', 'SLURM_PROCID', 'RANK')


def rank():
    """The rank as shim/base/launcher_rank.h finds it."""
    for name in (('RANK',) if 'TORCHELASTIC_RUN_ID' in os.environ else ()) + RANKS:
        if os.environ.get(name):
            return os.environ[name]
    return None


def is_silent():
    """Of many ranks the first one tells."""
    return (rank() or '').isdigit() and int(rank()) != 0


def say(text):
    """A line on stderr, with the rank as the library's own lines have it."""
    sys.stderr.write('graphpool{}: {}\n'.format('' if rank() is None else '[rank {}]'.format(rank()), text))
    sys.stderr.flush()


def say_lines(lines):
    """The first with the name of this command, the others below it."""
    say('\n'.join(lines))


class Refusal(Exception):
    """Nothing is started. The text says why."""


def library_path():
    path = places.library()
    if not os.access(path, os.R_OK):
        raise Refusal('{} cannot be read'.format(path))
    if any(letter in path for letter in ' :;\t'):
        raise Refusal('the loader takes no library whose path has a blank or a colon in it: {}'.format(path))
    with open(path, 'rb') as file:
        if file.read(5) != b'\x7fELF\x02':
            raise Refusal('{} is no library for 64-bit programs'.format(path))
    if places.version_of(path) is None:
        advice = '; unset GRAPHPOOL_LIBRARY, or name libgraphpool.so' if os.environ.get('GRAPHPOOL_LIBRARY') else ''
        raise Refusal('{} is another library than libgraphpool.so: it names no version of graphpool{}'.format(path, advice))
    return path


def library_warnings(path):
    version = places.version_of(path)
    if version == places.version():
        return []
    return ['{} has version {}, and this command has version {}'.format(path, version, places.version())]


def make_folder(folder):
    """Makes it where it is not there. Raises OSError where no file can be written into it."""
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as why:
        raise OSError(why.errno, 'it is a file; a folder is needed')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, 'Permission denied')


def is_own_folder(path):
    """Whether it is a folder of this user, and no link to one, that only this user can have filled."""
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022 \
        and os.access(path, os.W_OK | os.X_OK)


def temporary_folder():
    """Where reports go if they cannot be written here. Another user may have made a folder of that name: then a new one."""
    try:
        folder = os.path.join(os.path.abspath(os.environ.get('TMPDIR') or '/tmp'), '{}-{}'.format(FOLDER, os.getuid()))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        return folder if is_own_folder(folder) else tempfile.mkdtemp(prefix=FOLDER + '-')
    except OSError as why:
        raise Refusal('no folder for the reports can be made: {}'.format(why.strerror))


def report_folder(wanted):
    """(the folder for reports, warnings). It is made where it is not there. Nothing named, and none can be here: a temporary one."""
    folder, warnings = wanted or FOLDER, []
    if wanted and re.search('%[A-Za-z]', wanted):
        warnings.append('--report {} names a folder, and no mark in it is replaced: the names of the reports have host, rank and '
                        'process'.format(wanted))
    if folder.endswith('.json'):
        warnings.append('--report {} names a folder, not a file: each process writes a report of its own into it'.format(wanted))
    try:
        folder = os.path.abspath(folder)
        make_folder(folder)
    except OSError as why:
        if wanted:
            raise Refusal('--report {}: {}'.format(wanted, why.strerror))
        here, folder = folder, temporary_folder()
        warnings.append('no report can be written to {} ({}); they go to {}'.format(here, why.strerror, folder))
    return folder, warnings


def shown(folder):
    """A folder as messages name it: from here where it is below."""
    with contextlib.suppress(OSError):
        path = os.path.relpath(folder)
        return folder if path.startswith(os.pardir) else path
    return folder


def start_of_names():
    """What the names of this run's reports begin with: no other run's do."""
    return 'graphpool-{}-{}-{}'.format(time.strftime('%Y%m%d-%H%M%S'), socket.gethostname(), os.getpid())


def names_of_reports(said):
    """Warnings where something names a report: here --report names the folder."""
    return ['{} has no effect under run: --report DIR names the folder for the reports'.format(
        value['from'].replace('environment ', '')) for value in said['values'] if value['key'] == 'report.file' and value['value']]


def environment_for(library, words, folder, names, given, said):
    environment = dict(given)
    for name in places.VARIABLES + ('GRAPHPOOL_REPORT', 'GRAPHPOOL_REPORT_FILE'):
        environment.pop(name, None)
    environment['GRAPHPOOL_REPORT_FILE'] = '{}/{}-%h-r%r-p%p%u.json'.format(folder.replace('%', '%%'), names.replace('%', '%%'))
    if not environment.get('GRAPHPOOL_REPORT_EVERY'):
        environment['GRAPHPOOL_REPORT_EVERY'] = EVERY
    if words.trace:
        environment.pop('GRAPHPOOL_TRACE', None)
        environment['GRAPHPOOL_REPORT_TRACE'] = environment['GRAPHPOOL_REPORT_FILE'][:-len('.json')] + TRACE
    if words.verify:
        environment['GRAPHPOOL_GRAPH_VERIFY'] = 'first:3'
    for name in said['without_effect']:  # each process would warn of them again
        environment.pop(name, None)
    before = environment.get('LD_PRELOAD')
    environment['LD_PRELOAD'] = library + (':' + before if before else '')
    return environment


def quoted(value):
    """A value in a list of them: with quotes where it is itself a list, or empty."""
    return '"{}"'.format(value) if ',' in value or not value else value


def policy_in_words(said, verified):
    changed = [value for value in policy.changed(said) if not value['key'].startswith(('log.', 'report.'))]
    parts = ['{} = {}'.format(value['key'], quoted(value['value'])) for value in changed[:3]]
    if len(changed) > 3:
        parts.append('{} keys more'.format(len(changed) - 3))
    if said['rules']:
        parts.append(policy.rules_in_words(said))
    text = 'policy: ' + ', '.join(parts) if parts else 'default policy'
    return text + (', up to 3 captures of each graph and 3 launches by each way are verified' if verified else '')


def switched_off(said):
    """Where the library was switched off; None: it is on."""
    for value in said['values']:
        if value['key'] == 'enabled' and value['value'] in ('false', '0', 'off'):
            return value['from']
    return None


def left_to_processes(said):
    """Warnings of the policy file: each process that calls HIP says them, but where its log is switched off."""
    level = [value['value'] for value in said['values'] if value['key'] == 'log.level']
    return [] if level[:1] in (['off'], ['error']) else said['told_by_processes']


def left_behind(names):
    """How many processes of this run still run."""
    count, mark = 0, '/{}-'.format(names).encode()
    for process in os.listdir('/proc'):
        if process.isdigit():
            with contextlib.suppress(OSError):
                with open('/proc/{}/environ'.format(process), 'rb') as file:
                    count += mark in file.read()
    return count


def no_report_lines(said, folder, names, ended, path):
    off = switched_off(said)
    if off:
        return ['switched off by enabled = false ({}): every call was passed through'.format(off)]
    why = launch.why_not_preloaded(path)
    if why:
        return ['no report: {} could not be preloaded'.format(os.path.basename(path))]
    if not os.access(folder, os.W_OK | os.X_OK):
        return ['no report could be written: {} is not there, or is not writable'.format(folder)]
    running = left_behind(names)
    if running:
        return ['no report is there yet: {} still run{}, which it left behind; later: graphpool report {}'.format(
            reports.counted(running, 'process'), 's' if running == 1 else '', shlex.quote(shown(folder)))]
    if ended.signal is None:
        first, either = 'no HIP call was seen.', 'Either it makes none, or'
        if ended.code:
            either += ' it ended with exit code {} before its first one, or'.format(ended.code)
    else:
        first = 'no report was written before signal {} ended the program.'.format(ended.signal)
        either = 'Either it made no HIP call until then, or it was ended right after its first one, or'
    return [first] + textwrap.wrap(
        either + ' it opens the runtime past the dynamic linker (linked statically, or by dlopen with RTLD_DEEPBIND), or a script '
        'of it clears LD_PRELOAD, or it ended by _exit within its first moments.', WIDTH, initial_indent='  ', subsequent_indent='  ')


def tell(said, folder, names, ended, path):
    """What the library did, from the reports of this run."""
    found, damaged = [], False
    for name in sorted(os.listdir(folder)):
        if name.startswith(names + '-') and name.endswith('.json') and not name.endswith(TRACE):
            try:
                found.append(reports.load(os.path.join(folder, name)))
            except reports.Unreadable as why:
                damaged = True
                say(str(why))
    if damaged and not found:
        say('the program was not affected; its report is lost')
        return
    if not found:
        for warning in left_to_processes(said):
            say('warning: ' + warning)
        say_lines(no_report_lines(said, folder, names, ended, path))
        return
    found.sort(key=reports.order)
    if len(found) <= MOST_TABLES:
        for report in found:
            lines = tables.one(report, ended)
            say(lines[0])
            sys.stderr.write('\n'.join(lines[1:]) + '\n')
    else:
        say('{} processes'.format(len(found)))
        table = tables.many if len(found) <= MOST_ROWS else tables.summed
        sys.stderr.write('\n'.join('  ' + line for line in table(found)) + '\n')
    tell_traces([report.data['trace'] for report in found if report.data.get('trace')])
    one = len(found) == 1 and rank() is None
    what = 'explain' if rank() is None and len(found) <= MOST_ROWS else 'report'
    say('next: graphpool {} {}'.format(what, shlex.quote(shown(found[0].path if one else folder))))


def tell_traces(traces):
    for trace in traces[:MOST_TABLES]:
        lost = ', {} older ones dropped'.format(trace['dropped']) if trace['dropped'] else ''
        say('trace: {} ({} events{}); ui.perfetto.dev or speedscope shows it'.format(
            shlex.quote(shown(trace['file'])), trace['events'], lost))
    if len(traces) > MOST_TABLES:
        say('and {} traces more beside the reports'.format(len(traces) - MOST_TABLES))


def prepare(words):
    """(environment, what the policy reader says, folder, names, the program's file). Raises what main() tells."""
    if not words.rest:
        raise UsageError('which program? graphpool run -- PROGRAM [ARGUMENT...]')
    given, said = policy.given(words, os.environ)
    path = launch.find(words.rest[0])
    library = library_path()
    (folder, warnings), names = report_folder(words.report), start_of_names()
    said['warnings'] += library_warnings(library) + names_of_reports(said) + warnings
    return environment_for(library, words, folder, names, given, said), said, folder, names, path


REFUSALS = (policy.Refused, policy.NoFile, Refusal, launch.CannotStart, places.Missing)


def refuse(why):
    """Says why nothing was started; -> the exit code."""
    if isinstance(why, policy.Refused):
        for error in why.errors:
            say(error)
        why = Refusal('the policy cannot be used')
    say('{}: nothing was started'.format(why) if isinstance(why, (Refusal, policy.NoFile, places.Missing)) else str(why))
    return why.code if isinstance(why, launch.CannotStart) else OWN_FAULT


def run(words):
    try:
        environment, said, folder, names, path = prepare(words)
    except REFUSALS as why:
        return refuse(why)
    quiet = words.quiet or is_silent()
    for warning in [] if is_silent() else said['warnings']:
        if warning not in left_to_processes(said):
            say('warning: ' + warning)
    if not quiet:
        why = launch.why_not_preloaded(path)
        where = '' if why or switched_off(said) else '; reports in {}'.format(shown(folder))
        say('{}, {}{}'.format(places.version(), policy_in_words(said, words.verify), where))
        if why:
            say('warning: {} runs as without the library: {}{}'.format(
                words.rest[0], why, '; link it dynamically' if 'statically' in why else ''))
    try:
        ended = launch.run(words.rest, environment)
    except launch.CannotStart as why:
        return refuse(why)
    if not quiet:
        try:
            tell(said, folder, names, ended, path)
        except OSError as why:
            with contextlib.suppress(OSError):
                say('the reports cannot be read: {}: {}'.format(why.filename or folder, why.strerror))
                say('the program was not affected; its reports are lost')
    return launch.end_like(ended)


COMMAND = Command(
    'run', '[OPTION...] [--] PROGRAM [ARGUMENT...]', 'runs a program under the library and says what that did', run,
    policy.OPTIONS + [
        Option('--report', 'DIR', 'folder for the reports, one a process; default: ' + FOLDER),
        Option('--trace', None, 'also write a time line beside each report, for ui.perfetto.dev or speedscope'),
        Option('--verify', None, 'run the first three launches of each graph both ways and compare; slow'),
        Option('--quiet', None, 'no line at the start, no table at the end; the reports are written all the same')],
    details="""
    Policy, paths and library are checked before the program starts. Where one is wrong nothing is started. Messages go to stderr.
    The program's exit code is kept, and so is the signal that ends it. Signals sent to graphpool reach the program.

    Each process that calls HIP leaves a report, named by host, rank and process; no report is overwritten. It is also written
    a tenth of a second after the first HIP call, then every 2 seconds (report.every). So a process that is killed has left one.

    Under srun, mpirun or torchrun put `graphpool run --` before the program. Rank 0 prints its table, and graphpool report DIR
    shows all ranks side by side.

    Exit code where the program was not started: 2 an option is wrong, 125 graphpool cannot, 126 it cannot be run, 127 it is not
    there.""",
    examples=[('graphpool run -- python3 train.py', 'the default policy'),
              ('graphpool run --policy my.toml --set pool.limit=4GiB -- ./step', 'a policy, and one key over it'),
              ('graphpool run --trace -- ./step', 'a time line of captures, launches, waits and memory'),
              ('srun -n 8 graphpool run --report /scratch/job -- ./step', 'eight ranks, one folder')],
    program=True)
