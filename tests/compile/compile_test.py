#!/usr/bin/env python3
"""compile_test.py CONFIG CASE [--full]: one test of compile permits with real processes; --list: their names. CONFIG
(made by Meson): paths. --full: storms of 64 modules, some of several hundred MB. Exit code 77: skipped, the last line
says why. Each case has a table of permits of its own."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import cases  # noqa: E402
import runs  # noqa: E402
from cases import CONFIG, Skipped, case  # noqa: E402

HERE = None  # a fresh folder
FULL = False  # storms of full size


def check(condition, *shown):
    if not condition:
        raise AssertionError('\n'.join(str(part) for part in shown))


def environment(preload=True, **compile_keys):
    variables = runs.clean_environment()
    variables['XDG_RUNTIME_DIR'] = str(HERE)
    variables['TMPDIR'] = str(HERE)  # clang leaves folders behind
    if preload:
        variables['LD_PRELOAD'] = ':'.join(filter(None, [*CONFIG['before'].split(','), CONFIG['library']]))
    for key, value in compile_keys.items():
        variables[f'GRAPHPOOL_COMPILE_{key.upper()}'] = str(value)
    return variables


def start(*words, **keys):
    return subprocess.Popen([str(word) for word in words], env=environment(**keys), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, code=0):
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError('still running: ' + ' '.join(process.args))
    check(process.returncode == code, f'code {process.returncode}', process.args, out, err)
    check('graphpool' not in out + err, 'the library said something', out, err)
    return out


def seen():
    done = subprocess.run([CONFIG['seen']], env=environment(preload=False), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def no_table():
    return not list(HERE.glob('libgraphpool*'))


def wait_for(condition, what):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f'did not happen: {what}')


def sleeps_with_table(process):
    """It has the table of permits, and sleeps: a compiler that does nothing else waits for a permit."""
    folder = pathlib.Path(f'/proc/{process}')
    try:
        for _ in range(3):
            if 'libgraphpool-permits' not in (folder / 'maps').read_text():
                return False
            if (folder / 'stat').read_text().rpartition(')')[2].split()[0] != 'S':
                return False
            time.sleep(0.005)
    except OSError:  # it has ended
        return False
    return True


def descendants(process):
    parents = {}
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            parents[int(folder.name)] = int((folder / 'stat').read_text().rpartition(')')[2].split()[1])
        except OSError:  # it has ended
            pass
    found = [process]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def meet(number):
    """The tool's words that so many at once must have come to before any of them goes on."""
    meeting = tempfile.mkdtemp(prefix='meeting-', dir=HERE)
    return 'meet', meeting, number


# --- Who counts ---

@case
def rule_33_compiler_processes_take_permits():
    tools = [start(CONFIG['tool'], 'burn', 200, 'x', max=2) for _ in range(6)]
    for tool in tools:
        check(finish(tool) == 'done\n')
    counts = seen()
    check(counts['granted'] == 6 and 1 <= counts['peak'] <= 2 and counts['in_flight'] == 0, counts)


@case
def rule_33_however_they_are_started():
    tool = CONFIG['tool']
    script = f'''
import os, subprocess, sys
subprocess.run([{tool!r}, 'burn', '1'], check=True)
subprocess.run("{tool} burn 1", shell=True, check=True)
os.system("{tool} burn 1")
os.popen("{tool} burn 1").read()
os.waitpid(os.posix_spawn({tool!r}, [{tool!r}, 'burn', '1'], os.environ), 0)
if os.fork() == 0:
    os.execv({tool!r}, [{tool!r}, 'burn', '1'])
os.wait()
if os.fork() == 0:
    os.execve(os.open({tool!r}, os.O_RDONLY), ['x', 'burn', '1'], os.environ)
os.wait()
subprocess.run(['env', 'sh', '-c', 'exec clang-tool burn 1'], check=True, env=os.environ | {{'PATH': {str(pathlib.Path(tool).parent)!r} + ':/bin'}})
'''
    done = subprocess.run([sys.executable, '-c', script], env=environment(max=1), capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and not done.stderr, done)
    check(seen()['granted'] == 8 and seen()['peak'] == 1, seen())


@case
def two_hundred_compilers_wait():
    end = HERE / 'end'
    holders = [start(CONFIG['tool'], 'await', end, max=2, wait='10min') for _ in range(2)]
    wait_for(lambda: not no_table() and seen()['in_flight'] == 2, 'the holders')
    waiters = [start(CONFIG['tool'], 'burn', 1, max=2, wait='10min') for _ in range(200)]
    for waiter in waiters:
        wait_for(lambda: sleeps_with_table(waiter.pid), 'all ask')
    killed = waiters[::20]
    for process in (*killed, holders.pop()):
        process.kill()
        process.communicate()
    end.touch()
    for process in (*holders, *(waiter for waiter in waiters if waiter not in killed)):
        finish(process)
    counts = seen()
    check(counts['granted'] == 2 + 200 - len(killed) and counts['peak'] == 2 and counts['in_flight'] == 0, counts)
    check(counts['waited'] == 200 - len(killed), counts)


@case
def other_processes_are_untouched():
    for words in (['/bin/true'], ['/bin/sh', '-c', 'exit 0'], [sys.executable, '-c', '0']):
        finish(start(*words))
    check(no_table(), 'a table was made')


@case
def tools_that_only_ask_take_none():
    for words in (['--version'], ['-v'], ['-print-search-dirs'], ['--help'], []):
        finish(start(CONFIG['tool'], *words))
    for name in ('clangd', 'clang-format-15', 'clang-tidy', 'clang-offload-bundler'):
        shutil.copy(CONFIG['tool'], HERE / name)
        finish(start(HERE / name, 'burn', '1'))
    check(no_table(), 'a table was made')


@case
def names_are_the_policys():
    shutil.copy(CONFIG['tool'], HERE / 'mycc')
    finish(start(HERE / 'mycc', 'burn', '1'))
    check(no_table())
    finish(start(HERE / 'mycc', 'burn', '1', tools='my*'))
    check(seen()['granted'] == 1)
    finish(start(CONFIG['tool'], 'burn', '1', tools='my*'))
    check(seen()['granted'] == 1, 'no longer a tool')
    policy = HERE / 'policy.toml'
    policy.write_text('[compile]\ntools = ["other*"]\n')
    shutil.copy(CONFIG['tool'], HERE / 'other1')
    variables = environment()
    variables['GRAPHPOOL_POLICY'] = str(policy)
    subprocess.run([HERE / 'other1', 'burn', '1'], env=variables, check=True, capture_output=True, timeout=60)
    check(seen()['granted'] == 2, seen())
    # A script by its own name.
    script = HERE / 'hipcc'
    script.write_text('#!/bin/sh\nexit 0\n')
    script.chmod(0o755)
    finish(start(script, 'x'))
    check(seen()['granted'] == 3, seen())


@case
def switched_off():
    finish(start(CONFIG['tool'], 'burn', '1', enabled='false'))
    finish(start(CONFIG['tool'], 'burn', '1', scope='process'))
    check(no_table())


@case
def rule_36_a_compiler_process_prints_nothing():
    # A policy that cannot be used, and one that names unknown keys.
    for keys in ({'max': 'nonsense'}, {'nonsense': '1'}):
        check(finish(start(CONFIG['tool'], 'burn', '1', **keys)) == 'done\n')
    holder = start(CONFIG['tool'], 'burn', 200000, max=1, wait='100ms')
    wait_for(lambda: not no_table() and seen()['in_flight'] == 1, 'a holder')
    finish(start(CONFIG['tool'], 'burn', '1', max=1, wait='100ms'))
    check(holder.poll() is None, 'the wait was not bounded')
    holder.kill()
    holder.communicate()


@case
def static_executables_are_left_alone():
    check(finish(start(CONFIG['static'], 'burn', '1', max=1)) == 'done\n')
    check(no_table())


@case
def no_descriptor_stays_open():
    """Of the table, and of a jobserver whose byte the compiler has."""
    fifo, lister, there, end = Fifo(b'a', 2), HERE / 'clang-ls', HERE / 'there', HERE / 'end'
    shutil.copy(shutil.which('ls'), lister)
    native = subprocess.run([lister, '/proc/self/fd'], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    script = (f'{CONFIG["tool"]} touch {there} await {end} > {HERE}/out & while ! test -e {there}; do sleep 0.02; done; '
              f'{lister} /proc/self/fd; touch {end}; wait')
    listed = finish(fifo.start('sh', '-c', script, max=4, wait='60min'))
    check(listed == native.stdout, 'others are open than natively', listed, native)
    check(fifo.bytes_there() == b'a' and seen()['granted'] == 2, seen())


# --- Coming back ---

def killed_holder(*words):
    pid = HERE / 'pid'
    holder = start(CONFIG['tool'], *words, 'pid', pid, 'burn', 200000, max=1, wait='10min')
    wait_for(pid.exists, 'the holder')
    check(seen()['in_flight'] == 1, seen())
    waiter = start(CONFIG['tool'], 'burn', '1', max=1, wait='10min')
    wait_for(lambda: sleeps_with_table(waiter.pid), 'the waiter')
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    finish(waiter)
    counts = seen()
    del counts['sizes']
    check(counts == {'granted': 2, 'peak': 1, 'in_flight': 0, 'waited': 1}, counts)


@case
def rule_34_a_killed_holder():
    killed_holder()


@case
def rule_34_a_killed_holder_whose_forked_child_lives_on():
    killed_holder('fork-burn', 15000)


@case
def rule_34_a_holder_that_stands_still_lends_its_permit():
    holder = start(CONFIG['tool'], 'sleep', 200000, max=1, wait='1s')
    wait_for(lambda: not no_table() and seen()['in_flight'] == 1, 'a holder')
    finish(start(CONFIG['tool'], 'burn', '1', max=1, wait='1s'))
    check(holder.poll() is None, 'the holder ended first')
    holder.kill()
    holder.communicate()


# --- Machines of all kinds ---

def namespaces(*kinds):
    """The words before a command that give it namespaces of its own."""
    enter = ['unshare', *([] if os.geteuid() == 0 else ['--user', '--map-root-user']), '--mount', *kinds]
    if not shutil.which('unshare') or subprocess.run([*enter, 'true'], capture_output=True).returncode != 0:
        raise Skipped('no namespaces can be made')
    return enter


def without_process(text):
    """Lines of the log, without the process that each names."""
    return re.sub(r'^graphpool\[\d+\]', 'graphpool', text, flags=re.MULTILINE)


def preloaded(*words):
    return ' '.join(['LD_PRELOAD=' + environment()['LD_PRELOAD'], *map(str, words)])


@case
def where_no_table_can_be_made_compilations_go_on():
    folder = HERE / 'small'
    folder.mkdir()
    said = 'graphpool: warning: compile: permits cannot be shared with other processes: they count in this one only\n'
    for options in ('size=4k', 'size=64k', 'ro'):  # full at once, or when most of it is there
        script = (f'mount -t tmpfs -o {options},mode=700 none {folder} && export XDG_RUNTIME_DIR={folder} && '
                  f'{preloaded(CONFIG["tool"], "burn 1 x")} && ls -A {folder} && '
                  f'{preloaded(CONFIG["pool"], CONFIG["fake_compiler"], "call 2 LLVMRunPasses nested")} && ls -A {folder}')
        done = subprocess.run([*namespaces(), 'sh', '-c', script], env=environment(preload=False), text=True,
                              capture_output=True, timeout=60)
        lines = done.stdout.splitlines()
        check(done.returncode == 0 and without_process(done.stderr) == said, options, done)
        check(len(lines) == 2 and lines[0] == 'done', 'a file was left', done)


@case
def rule_34_holders_in_other_containers_are_waited_for_and_die_too():
    pid = HERE / 'pid'
    enter = namespaces('--pid', '--fork', '--mount-proc', '--kill-child')

    def contained(*words):
        return subprocess.Popen([*enter, 'sh', '-c', preloaded(CONFIG['tool'], *words) + '; true'],
                                env=environment(preload=False, max=1, wait='1s'), stdout=subprocess.DEVNULL)

    holder = contained('touch', pid, 'burn', 200000)
    wait_for(pid.exists, 'the holder')
    waiter = contained('burn', '1')
    time.sleep(4)
    check(waiter.poll() is None and seen()['granted'] == 1, 'it did not wait', seen())
    holder.kill()
    holder.wait()
    wait_for(lambda: waiter.poll() is not None, 'the waiter has had it')
    check(seen()['granted'] == 2 and seen()['in_flight'] == 0, seen())


@case
def rule_34_users_of_a_node_share_permits():
    """The table is made by another user than root, then by root."""
    if os.geteuid() != 0:
        raise Skipped('root may be another user')
    HERE.chmod(0o777)
    other = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
    if not shutil.which(other[0]) or subprocess.run([*other, CONFIG['tool'], '--version'],
                                                       capture_output=True).returncode != 0:
        raise Skipped('another user cannot run the tests')
    script = """
mount -t tmpfs -o mode=1777 none /dev/shm
{holder} &
number=$!
until test -e pid; do sleep 0.02; done
{waiter} &
sleep 0.5
ls done 2>&-
kill -9 $(cat pid)
wait $!
ls done
"""
    words = [preloaded(CONFIG['tool'], 'pid pid burn 200000'), preloaded(CONFIG['tool'], 'touch done')]
    as_other = ' '.join(other)
    for holder, waiter in ((f'{as_other} env {words[0]}', words[1]), (words[0], f'{as_other} env {words[1]}')):
        done = subprocess.run([*namespaces(), 'sh', '-c', script.format(holder=holder, waiter=waiter)], text=True, cwd=HERE,
                              env=environment(preload=False, max=1, scope='node', wait='10min'), capture_output=True, timeout=60)
        check(done.stdout == 'done\ndone\n', done)
        (HERE / 'done').unlink()
        (HERE / 'pid').unlink()


# --- Riding ---

@case
def rule_35_nested_compilers_are_one():
    inner = [CONFIG['tool'], 'burn', '20', 'run', CONFIG['lld'], 'burn', '20', 'end']
    finish(start(CONFIG['tool'], 'run', *inner, 'end', 'run', *inner, 'end', max=1))
    check(seen()['granted'] == 1 and seen()['peak'] == 1, seen())


@case
def rule_35_calls_of_a_program_that_a_compiler_starts_ride():
    script = HERE / 'clang-driver'
    words = CONFIG['pool'], CONFIG['fake_compiler'], 'call', '2', 'LLVMRunPasses', 'burn'
    script.write_text(f'#!/bin/sh\n{" ".join(words)}\n')
    script.chmod(0o755)
    finish(start(script, 'x', max=1, wait='10min'))
    check(seen()['granted'] == 1 and seen()['in_flight'] == 0, seen())


@case
def rule_35_further_children_take_their_own():
    script = HERE / 'clang-driver'
    script.write_text(f'#!/bin/sh\n{at_once(2, *meet(2))}\n')
    script.chmod(0o755)
    finish(start(script, 'x', max=4))
    check(seen()['granted'] == 2, 'one rode, one took its own', seen())


# --- Parents ---

@case
def make_is_a_parent():
    makefile = HERE / 'Makefile'
    words = ' '.join(map(str, meet(2)))
    makefile.write_text(f'all: a b c d e f\na b c d e f:\n\t@{CONFIG["tool"]} {words} burn 50 $@\n')
    finish(start('make', '-j6', '-f', makefile, max=2))
    check(seen()['granted'] == 6 and seen()['peak'] == 2, seen())


@case
def ninja_is_a_parent():
    build = HERE / 'build.ninja'
    build.write_text(f'rule cc\n  command = {CONFIG["tool"]} {" ".join(map(str, meet(2)))} burn 50 $out\n' +
                     ''.join(f'build {name}: cc\n' for name in 'abcdef'))
    done = start('ninja', '-j6', '-C', HERE, max=2)
    finish(done)
    check(seen()['granted'] == 6 and seen()['peak'] == 2, seen())


# --- Jobservers ---

class Fifo:
    """A jobserver of the test's own: a fifo with these bytes in it, named as make names it."""

    def __init__(self, held, jobs):
        self.path = HERE / 'jobs'
        os.mkfifo(self.path)
        self.file = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        os.write(self.file, held)
        self.flags = f' -j{jobs} --jobserver-auth=fifo:{self.path}'

    def bytes_there(self):
        try:
            held = os.read(self.file, 4096)
        except BlockingIOError:
            return b''
        os.write(self.file, held)
        return bytes(sorted(held))

    def start(self, *words, **keys):
        variables = environment(**keys)
        variables['MAKEFLAGS'] = self.flags
        return subprocess.Popen([str(word) for word in words], env=variables, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def at_once(number, *words):
    """A shell's words that run a tool so many times at once."""
    return ' '.join(f'{CONFIG["tool"]} {" ".join(map(str, words))} x{i} &' for i in range(number)) + ' wait'


def make(text, *words, **keys):
    (HERE / 'Makefile').write_text(text)
    done = subprocess.run(['make', '-C', HERE, '-s', *words], env=environment(**keys), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    # At its end make counts the bytes, and says when one is missing.
    check(done.returncode == 0 and not done.stderr, done)
    return done.stdout


@case
def jobserver_pipe_of_make():
    make(f'all:\n\t+@{at_once(6, *meet(6))}\n', '-j3', max=6, jobserver='off')
    (next(HERE.glob('libgraphpool*'))).unlink()
    make(f'all:\n\t+@{at_once(6, *meet(3), "burn", 100)}\n', '-j3', max=6)
    check(seen()['granted'] == 6 and seen()['peak'] == 3, seen())


@case
def jobserver_pipe_of_two_jobs():
    make(f'all: a b\na b:\n\t+@{at_once(4, *meet(3), "burn", 100)}\n', '-j3', max=8)
    check(seen()['granted'] == 8 and seen()['peak'] == 3, seen())


@case
def jobserver_pipe_around_ninja():
    build = HERE / 'build.ninja'
    build.write_text(f'rule cc\n  command = {CONFIG["tool"]} {" ".join(map(str, meet(2)))} burn 100 $out\n' +
                     ''.join(f'build {name}: cc\n' for name in 'abcdef'))
    make('all:\n\t+@ninja --quiet -j6\n', '-j2', max=6)
    check(seen()['granted'] == 6 and seen()['peak'] == 2, seen())


@case
def jobserver_pipe_under_a_sub_make():
    (HERE / 'sub.mk').write_text(f'all:\n\t+@{at_once(4, *meet(2), "burn", 100)}\n')
    make('all:\n\t+@$(MAKE) -s -f sub.mk\n', '-j2', max=4)
    check(seen()['granted'] == 4 and seen()['peak'] == 2, seen())


@case
def jobserver_descriptors_that_are_not_makes_are_not_read():
    # make closes its pipe for this recipe; the numbers then are another pipe, with bytes in it.
    script = HERE / 'other_pipe.py'
    script.write_text(f'''
import os, subprocess, sys
read_end, write_end = (int(n) for n in os.environ['MAKEFLAGS'].split('--jobserver-auth=')[1].split()[0].split(','))
for number in (read_end, write_end):
    try:
        os.fstat(number)
        sys.exit('the pipe of make is open')
    except OSError:
        pass
ends = os.pipe2(0)
os.write(ends[1], b'mine')
kept = [os.dup(end) for end in ends]
high = [os.dup2(kept[0], 50), os.dup2(kept[1], 51)]
os.dup2(50, read_end)
os.dup2(51, write_end)
subprocess.run({at_once(4, *meet(3))!r}, shell=True, check=True, pass_fds=(read_end, write_end))
assert os.read(50, 100) == b'mine'
''')
    make(f'all:\n\t@{sys.executable} {script}\n', '-j2', max=4)
    check(seen()['granted'] == 4 and seen()['peak'] > 2, seen())


@case
def jobserver_names_of_nothing_are_ignored():
    (HERE / 'file').write_text('xx')
    for auth in ('97,98', '0,1', '-2,-2', f'fifo:{HERE}/none', f'fifo:{HERE}/file', 'fifo:', '3', ''):
        variables = environment(max=4)
        variables['MAKEFLAGS'] = f' -j2 --jobserver-auth={auth}'
        subprocess.run(['sh', '-c', at_once(3, 'burn', 10)], env=variables, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True, timeout=60)
    check((HERE / 'file').read_text() == 'xx' and seen()['granted'] == 24, seen())


@case
def jobserver_fifo():
    fifo = Fifo(b'ab', 3)
    finish(fifo.start('sh', '-c', at_once(6, *meet(3), 'burn', 100), max=6))
    check(seen()['granted'] == 6 and seen()['peak'] == 3, seen())
    check(fifo.bytes_there() == b'ab', fifo.bytes_there())


@case
def jobserver_without_a_byte_one_runs():
    fifo = Fifo(b'a', 2)
    check(os.read(fifo.file, 1) == b'a')
    finish(fifo.start('sh', '-c', at_once(4, 'burn', 100), max=4, wait='60min'))
    check(seen()['granted'] == 4 and seen()['peak'] == 1, seen())
    check(fifo.bytes_there() == b'')


def holders_of_the_jobs_own_and_of_a_byte(fifo, *last, **keys):
    """Under one shell: a compilation that stays, and one that has taken the byte; the second one's number."""
    words = ' '.join(str(word) for word in last)
    tool = CONFIG['tool']
    script = (f'await_file() {{ while ! test -e {HERE}/$1; do sleep 0.02; done; }}; {tool} pid {HERE}/first await {HERE}/end & '
              f'await_file first; {tool} pid {HERE}/second {words} & await_file third; {tool} burn 10; touch {HERE}/end; wait')
    shell = fifo.start('sh', '-c', script, max=4, wait='60min', **keys)
    wait_for((HERE / 'second').exists, 'the second')
    return shell


@case
def rule_34_the_byte_of_a_killed_holder_comes_back():
    fifo = Fifo(b'z', 2)
    shell = holders_of_the_jobs_own_and_of_a_byte(fifo, 'burn', 200000)
    check(fifo.bytes_there() == b'' and seen()['in_flight'] == 2, seen())
    os.kill(int((HERE / 'second').read_text()), signal.SIGKILL)
    (HERE / 'third').touch()
    check('done' in finish(shell))
    check(fifo.bytes_there() == b'z', 'the next compilation of the job used it and gave it back', fifo.bytes_there())


def comes_back_by_itself(*last):
    fifo = Fifo(b'z', 2)
    shell = holders_of_the_jobs_own_and_of_a_byte(fifo, 'await', HERE / 'go', *last)
    check(fifo.bytes_there() == b'')
    (HERE / 'go').touch()
    wait_for(lambda: fifo.bytes_there() == b'z', 'the byte came back')
    (HERE / 'third').touch()
    finish(shell)
    check(fifo.bytes_there() == b'z')


@case
def rule_34_a_holder_that_leaves_by__exit_gives_its_byte_back():
    comes_back_by_itself('leave')


@case
def rule_34_a_holder_that_execs_gives_its_byte_back():
    comes_back_by_itself('exec', shutil.which('sleep'), '1')


@case
def rule_35_children_that_wait_for_each_other_go_on_without_a_byte():
    fifo = Fifo(b'', 1)
    driver = HERE / 'clang-driver'
    tool = CONFIG['tool']
    driver.write_text(f'#!/bin/sh\n{tool} await {HERE}/b &\nsleep 0.3\n{tool} touch {HERE}/b &\nwait\n')
    driver.chmod(0o755)
    finish(fifo.start(driver, 'x', max=4, wait='500ms'))


@case
def jobserver_of_calls():
    """Not of AMD's hipRTC: two of its compilations at once may natively give another object, or none."""
    fifo = Fifo(b'a', 2)
    report = HERE / 'report.json'
    variables = environment(max=4, wait='10min') | {'MAKEFLAGS': fifo.flags, 'GRAPHPOOL_REPORT': str(report)}
    done = subprocess.run([CONFIG['pool'], CONFIG['fake_compiler'], 'meet', '2', 'call', '4', 'LLVMRunPasses', 'burn'],
                          env=variables, capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and done.stdout == '2\n' and not done.stderr, done)
    counts = json.loads(report.read_text())['compile']
    check(counts['permits'] == 4 and counts['peak_in_flight'] == 2 and counts['jobserver_bytes'] >= 1, counts)
    check(fifo.bytes_there() == b'a')


@case
def jobserver_is_offered():
    script = HERE / 'offered.py'
    script.write_text(f'''
import os, subprocess, sys
flags = os.environ['MAKEFLAGS']
path = flags.split('fifo:')[1]
assert '-j3' in flags.split(), flags
fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)
assert len(os.read(fifo, 100)) == 2
os.close(fifo)
subprocess.run({at_once(3, 'burn', 100)!r}, shell=True, check=True, stdout=subprocess.DEVNULL)
fifo = os.open(path, os.O_RDWR)
os.write(fifo, b'++')
os.close(fifo)
open({str(HERE / 'path')!r}, 'w').write(path)
if len(sys.argv) > 1:
    os.kill(os.getpid(), 9)
''')
    finish(start(sys.executable, script, 'die', max=3, jobserver='offer'), -signal.SIGKILL)
    first = (HERE / 'path').read_text()
    check(seen()['granted'] == 3 and seen()['peak'] == 1, 'others had the bytes', seen())
    check(os.path.exists(first), 'it was killed')
    finish(start(sys.executable, script, max=3, jobserver='offer'))
    second = (HERE / 'path').read_text()
    check(not os.path.exists(first) and not os.path.exists(second), 'a fifo was left', first, second)
    # Through an exec of the process that offers.
    finish(start('sh', '-c', f'exec {sys.executable} {script}', max=3, jobserver='offer'))
    check(not list(HERE.glob('libgraphpool-jobs-*')))


@case
def jobserver_is_offered_to_a_make_that_knows_no_fifo():
    (HERE / 'Makefile').write_text(f'all: a b c\na b c:\n\t@{CONFIG["tool"]} burn 10 $@\n')
    check(finish(start('sh', '-c', f'make -s -j2 -f {HERE}/Makefile; true', max=3, jobserver='offer')) == 'done\n' * 3)


# --- What must not change ---

@case
def rule_32_processor_counts_stay():
    script = 'import os; print(os.cpu_count(), os.sched_getaffinity(0), [os.sysconf(n) for n in (83, 84)])'
    for words in ([sys.executable, '-c', script], ['nproc'], ['getconf', '_NPROCESSORS_ONLN']):
        native = subprocess.run(words, env=environment(preload=False), capture_output=True, text=True, check=True).stdout
        check(native == finish(start(*words, max=1)), native)
    shutil.copy(shutil.which('nproc'), HERE / 'clang-nproc')
    native = subprocess.run(['nproc'], env=environment(preload=False), capture_output=True, text=True, check=True).stdout
    check(finish(start(HERE / 'clang-nproc', '--all', max=1)) and finish(start(HERE / 'clang-nproc', '--ignore=0', max=1)) == native)
    check(seen()['granted'] == 2, seen())


# --- Calls ---

def hiprtc(threads, **keys):
    report = HERE / 'report.json'
    variables = environment(**keys)
    variables['GRAPHPOOL_REPORT'] = str(report)
    done = subprocess.run([CONFIG['threads'], str(threads)], env=variables, capture_output=True, text=True, timeout=200)
    if done.returncode == 77:
        raise Skipped('AMD\'s hipRTC is not there')
    check(done.stdout == 'same 1\n', done)
    return json.loads(report.read_text())['compile'], done.stderr


@case
def calls_of_hiprtc_take_permits():
    counts, said = hiprtc(4, max=1)
    check(counts['permits'] == 4 and counts['peak_in_flight'] == 1 and counts['waited'] >= 3 and not counts['went_on'], counts)
    check(counts['waited_ms'] > 0, counts)
    # Each alone in its process, so its growth was learnt.
    learnt = {size['class']: size for size in counts['sizes']}
    check(learnt['hiprtc source 0K']['finished'] >= 1 and learnt['hiprtc source 0K']['peak_bytes'] > 4 << 20, counts)
    check('graphpool' not in said, said)


@case
def calls_count_with_compiler_processes():
    holder = start(CONFIG['tool'], 'burn', 200000, max=1)
    wait_for(lambda: not no_table() and seen()['in_flight'] == 1, 'a holder')
    counts, _ = hiprtc(1, max=1, wait='100ms')
    check(counts['waited'] == 1, counts)
    holder.kill()
    holder.communicate()


@case
def a_key_without_effect_is_named():
    said = 'graphpool: warning: policy: compile.tools has no effect in the scope of a process: only its calls count\n'
    for keys, expected in (({'tools': 'mine*'}, said), ({}, '')):
        done = subprocess.run([CONFIG['pool'], CONFIG['fake_compiler'], 'call', '1', 'LLVMRunPasses', 'nested'],
                              env=environment(scope='process', **keys), capture_output=True, text=True, timeout=60)
        check(done.returncode == 0 and without_process(done.stderr) == expected, done)


@case
def a_long_wait_is_said_once_in_ten_seconds():
    holder = start(CONFIG['tool'], 'burn', 200000, max=1, wait='10min')
    wait_for(lambda: not no_table() and seen()['in_flight'] == 1, 'a holder')
    waiter = subprocess.Popen([CONFIG['pool'], CONFIG['fake_compiler'], 'call', '4', 'LLVMRunPasses', 'burn'],
                              env=environment(max=1, wait='10min'), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True)
    line = waiter.stderr.readline()
    check(line.startswith(f'graphpool[{waiter.pid}]: warning: compile: waiting for 1'), line)
    check('1 compilations run, which is the limit' in line, line)
    holder.kill()
    holder.communicate()
    check(waiter.stderr.read() == '' and waiter.wait() == 0, 'the others that waited said nothing')


@case
def calls_in_the_scope_of_a_process():
    counts, _ = hiprtc(2, max=1, scope='process')
    check(counts['permits'] == 2 and counts['peak_in_flight'] == 1, counts)
    check(no_table())


def pool(*words, library='fake_compiler', preload=True, meets=0, **keys):
    """pool.cpp: how many ran at once, and the report. meets: so many must run at once before any of them ends."""
    report = HERE / 'report.json'
    report.unlink(missing_ok=True)
    variables = environment(preload, **{'wait': '10min', **keys}) | {'GRAPHPOOL_REPORT': str(report)}
    done = subprocess.run([CONFIG['pool'], CONFIG[library], 'meet', str(meets), *map(str, words)], env=variables,
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and not done.stderr, done)
    return int(done.stdout), json.loads(report.read_text())['compile'] if report.exists() else None


def check_free():
    check(seen()['in_flight'] == 0, seen())


@case
def rule_33_outermost_calls_take_permits():
    for function, kind in (('LLVMRunPasses', 'llvm passes'), ('amd_comgr_do_action', 'comgr compile'),
                           ('lto_codegen_optimize', 'lto optimize')):
        pool('call', 4, function, 'burn', preload=False, meets=4)
        most, counts = pool('call', 4, function, 'burn', max=2, meets=2)
        check(most == 2 and counts['permits'] == 4 and counts['peak_in_flight'] == 2, most, counts)
        check(any(size['class'].startswith(kind) for size in counts['sizes']), counts)
        check(counts['least_headroom_bytes'] > 0, counts)
        check_free()


@case
def rule_33_every_function_that_compiles_takes_a_permit_however_it_is_reached():
    rows = re.findall(r'^COMPILE_HOOK\([^,]+, (\w+),', pathlib.Path(CONFIG['rows']).read_text(), re.M)
    expected = {'comgr link', 'comgr compile', 'llvm passes', 'llvm emit', 'lto compile', 'lto optimize', 'lto thin',
                'hiprtc source', 'hiprtc link'}
    for way, comgr in (('import', '2'), ('dlsym', '3'), ('dlvsym', '3')):
        report = HERE / f'{way}.json'
        done = subprocess.run([CONFIG['entries'], way], capture_output=True, text=True, timeout=60,
                              env=environment(max=1) | {'GRAPHPOOL_REPORT': str(report), 'COMGR_VERSION': comgr})
        check(done.returncode == 0 and not done.stderr, way, done)
        called = done.stdout.split()
        check(set(called) == {*rows, 'hiprtcCompileProgram', 'hiprtcLinkComplete', 'hipLinkComplete'}, 'not all rows are called', called)
        counts = json.loads(report.read_text())['compile']
        check(counts['permits'] == len(called) + 1 and not counts['rides'], way, counts)
        check({size['class'].rpartition(' ')[0] for size in counts['sizes']} == expected, way, counts)


@case
def rule_33_a_function_whose_library_is_not_loaded_says_that_it_has_failed():
    finish(start(CONFIG['tool'], 'absent'))


@case
def rule_33_processes_bound_to_other_processors_do_not_count():
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        return
    end = HERE / 'end'

    def bound(processor, *words):
        return start('taskset', '--cpu-list', processor, CONFIG['tool'], *words, wait='10min')

    running = [bound(processors[0], 'await', end)]
    wait_for(lambda: not no_table() and seen()['in_flight'] == 1, 'the first')
    waiter = bound(processors[0], 'burn', 1)
    running.append(bound(processors[1], 'await', end))
    wait_for(lambda: seen()['in_flight'] == 2, 'one on another processor')
    check(waiter.poll() is None, 'it shares a processor with the first')
    end.touch()
    for process in (*running, waiter):
        finish(process)
    check(seen()['granted'] == 3, seen())


@case
def rule_33_two_copies_of_the_library_take_one_permit():
    copy = HERE / 'libcopy.so'
    shutil.copy(CONFIG['library'], copy)
    both = environment(max=1, wait='10min')
    both['LD_PRELOAD'] += f':{copy}'
    for words in ((CONFIG['tool'], 'burn', 5, 'x'),
                  (CONFIG['pool'], CONFIG['fake_compiler'], 'call', 1, 'LLVMRunPasses', 'burn')):
        done = subprocess.run([str(word) for word in words], env=both, capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, done)
    check(seen()['granted'] == 2, seen())


@case
def rule_33_a_call_inside_a_call_rides():
    most, counts = pool('call', 4, 'LLVMRunPasses', 'nested', max=1)
    check(most == 1 and counts['permits'] == 4, most, counts)


@case
def rule_33_where_one_compiles_at_a_time_the_others_wait_without_a_permit():
    most, counts = pool('call', 4, 'hiprtcCompileProgram', 'burn', library='fake_hip_6', max=4)
    check(most == 1 and counts['permits'] == 4 and counts['peak_in_flight'] == 1 and not counts['waited'], most, counts)


@case
def rule_33_threads_that_a_holder_starts_ride():
    most, counts = pool('call', 2, 'LLVMRunPasses', 'pool', max=1, meets=2)
    check(most > 1 and counts['permits'] == 2 and not counts['went_on'], most, counts)


@case
def rule_33_a_call_in_a_compiler_process_is_part_of_it():
    shutil.copy(CONFIG['pool'], HERE / 'clang-threads')
    words = CONFIG['fake_compiler'], 'call', 2, 'LLVMRunPasses', 'burn'
    finish(start(HERE / 'clang-threads', *words, max=1, wait='10min'))
    check(seen()['granted'] == 1, seen())


@case
def rule_33_pool_threads_count_while_they_run():
    pool('threads', 6, 'llvm-worker-', 200, preload=False, meets=6)
    for words in (('threads', 6, 'llvm-worker-', 200), ('prctl', 6, 'xla-gpu-codegen', 200)):
        most, counts = pool(*words, max=2, meets=2)
        check(most == 2 and counts['permits'] == 6 and counts['waited'] >= 4 and not counts['went_on'], most, counts)
        check_free()
    # They wait until all are there: meanwhile they do not count, and those that slept for long ask again.
    _, counts = pool('handshake', 6, 'llvm-worker', max=2)
    check(counts['permits'] >= 6 and not counts['went_on'], counts)


@case
def rule_33_pool_threads_are_limited_in_later_work():
    for how in ('condition', 'timed', 'semaphore', 'others', 'file'):
        words = ('pool', how, 6, 'llvm-worker-', 50, 24)
        pool(*words, preload=False, meets=3)
        most, counts = pool(*words, max=2, meets=2)
        check(most == 2 and not counts['went_on'], how, most, counts)
        check_free()


def used_ticks(process):
    return int(pathlib.Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()[11])


@case
def rule_33_pool_threads_that_wait_by_futex_count_while_they_work():
    _, counts = pool('pool', 'futex', 4, 'llvm-worker-', 20, 24, max=2, wait='500ms')
    check(counts['permits'] == 4 and counts['waited'] >= 2, 'they waited where they named themselves', counts)
    go, work_ms = HERE / 'go', 4000
    works = start(CONFIG['pool'], CONFIG['fake_compiler'], 'after', go, 'pool', 'futex', 2, 'llvm-worker-', work_ms, 2,
                  max=2, wait='1s')
    wait_for(lambda: seen()['granted'] == 6, 'both are there')
    finish(start(CONFIG['tool'], 'burn', '1', max=1, wait='1s'))  # once both have slept for a while
    began = time.monotonic()
    go.touch()
    wait_for(lambda: used_ticks(works.pid) >= 20, 'they work')
    finish(start(CONFIG['tool'], 'burn', '1', max=1, wait='1s'))
    check(time.monotonic() - began >= work_ms / 1000, 'a compiler began while two threads compiled')
    check(works.wait() == 0, works.stderr.read())
    check_free()


@case
def rule_33_pool_threads_that_are_to_end_wait_for_no_permit():
    _, counts = pool('stop', 6, 'llvm-worker-', max=1)
    check(not counts['went_on'], counts)
    check_free()


@case
def rule_33_pool_threads_that_serve_a_call_ride():
    most, counts = pool('serve', 6, 'llvm-worker-', max=1, meets=2)
    check(most > 1 and not counts['went_on'], most, counts)
    check_free()


@case
def rule_33_names_of_pool_threads_are_the_policys():
    for words in (('unnamed', 6, 200), ('threads', 6, 'other', 200)):
        most, counts = pool(*words, max=2, meets=3)
        check(most > 2 and counts is None, most, counts)
    check(pool('threads', 6, 'llvm-worker', 200, max=2, meets=3, threads='other*')[0] > 2)
    check(pool('threads', 6, 'other', 200, max=2, meets=2, threads='some*,other*')[0] == 2)
    # By the module of their first function.
    check(pool('unnamed', 6, 200, max=2, meets=2, threads='libstdc++.so*')[0] == 2)


@case
def rule_34_every_way_out_gives_back():
    for words in (('call', 4, 'LLVMRunPasses', 'throw'), ('cancelled', 'LLVMRunPasses'), ('exit', 6, 'llvm-worker')):
        _, counts = pool(*words, max=1)
        check(not counts['went_on'] and counts['permits'] > 1, counts)
        check_free()


@case
def rule_34_compilations_in_handlers_and_at_the_end():
    _, counts = pool('signal', 'LLVMRunPasses', max=1)
    check(counts['permits'] == 2 and counts['waited'] == 1 and not counts['went_on'], counts)
    check_free()
    _, counts = pool('atexit', 'LLVMRunPasses', max=1)
    check(counts['permits'] == 1 and not counts['without_permit'], counts)
    check_free()


@case
def rule_34_forked_children_hold_nothing():
    for scope in ('user', 'process'):
        _, counts = pool('fork', 'LLVMRunPasses', max=1, scope=scope)
        check(counts['permits'] == 3, counts)
    check(seen()['granted'] == 4 and seen()['in_flight'] == 0, seen())


# --- A policy that takes long ---

@case
def rule_36_a_policy_that_is_no_file_holds_nobody_up():
    fifo = HERE / 'policy'
    os.mkfifo(fifo)
    for policy in (fifo, '/dev/zero'):
        variables = environment() | {'GRAPHPOOL_POLICY': str(policy)}
        for words in (['/bin/true'], [CONFIG['tool'], 'burn', '1']):
            done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60)
            check(done.returncode == 0 and not done.stderr, done)


def slow_policy(how, what):
    policy = HERE / 'policy.toml'
    policy.write_text('[compile]\nmax = 1\n')
    variables = environment(nonsense='1') | {'GRAPHPOOL_POLICY': str(policy)}
    done = subprocess.run([CONFIG['slow_policy'], how, what], env=variables, capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and 'GRAPHPOOL_COMPILE_NONSENSE' in done.stderr, how, what, done)


@case
def rule_34_a_child_forked_while_the_policy_is_read_compiles():
    for what in ('compile', 'hip'):
        slow_policy('fork', what)


@case
def rule_18_nobody_waits_for_what_is_said_about_the_policy():
    for what in ('compile', 'hip'):
        slow_policy('stderr', what)


# --- The report ---

def starter(*commands, **keys):
    """starter.cpp under a report: (how, word...) each."""
    report = HERE / 'report.json'
    report.unlink(missing_ok=True)
    words = [str(word) for command in commands for word in (*command, ',')]
    variables = environment(**{'wait': '10min', **keys}) | {'GRAPHPOOL_REPORT': str(report)}
    return subprocess.Popen([CONFIG['starter'], *words], env=variables, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def report_of(process):
    _, said = process.communicate(timeout=120)
    check(process.returncode == 0 and not said, process.returncode, said)
    return json.loads((HERE / 'report.json').read_text()).get('compile')


@case
def a_report_has_what_compilers_of_the_scope_did():
    tool = CONFIG['tool']
    # Before the program: in none of its counts but the sizes.
    for process in [start(tool, 'touch', HERE / ours, 'grow', 200, 'await', HERE / theirs, max=2)
                    for ours, theirs in (('1', '2'), ('2', '1'))]:
        finish(process)
    check(seen()['granted'] == seen()['peak'] == 2, seen())
    go = HERE / 'go'
    three = starter(('spawn', tool, 'await', go), ('spawn', tool, 'await', go, 'run', CONFIG['lld'], 'burn', 1, 'end'),
                    ('system', f'exec {tool} await {go}'), max=1)
    wait_for(lambda: sum(sleeps_with_table(each) for each in descendants(three.pid)) == 3, 'one goes, two wait')
    time.sleep(0.3)
    go.touch()
    counts = report_of(three)
    scope = counts.pop('scope')
    check(scope['name'] == 'user' and scope['permits'] == 3 and scope['rides'] == 1, scope)
    check(scope['waited'] == 2 and 300 <= scope['waited_ms'] < 200_000, scope)
    check(scope['peak_in_flight'] == 1 and not scope['went_on'] and not scope['without_permit'], scope)
    check(1 << 10 <= scope['most_held_bytes'] < 200 << 20, 'three that held nothing, one by one', scope)
    check(counts['permits'] == counts['rides'] == counts['waited'] == counts['peak_in_flight'] == 0, 'its own', counts)
    check(sum(size['finished'] for size in counts['sizes']) == 5, counts)
    # Together, and what they held: at least as much as the larger one.
    counts = report_of(starter(*[('spawn', tool, 'touch', HERE / ours, 'grow', 64, 'await', HERE / theirs)
                                 for ours, theirs in (('a', 'b'), ('b', 'a'))], max=2))
    check(counts['scope']['peak_in_flight'] == 2 and counts['scope']['permits'] == 2, counts)
    check((64 << 20) * 7 // 8 <= counts['scope']['most_held_bytes'] < 1 << 30, counts)
    check(counts['scope']['least_headroom_bytes'] > 0, counts)


@case
def a_report_has_a_scope_of_its_own_where_none_is_shared():
    _, counts = pool('call', 2, 'LLVMRunPasses', 'burn', max=1, scope='process')
    scope = counts['scope']
    check(scope['name'] == 'process' and scope['permits'] == counts['permits'] == 2, counts)
    check([scope[key] for key in ('waited', 'waited_ms', 'peak_in_flight')] ==
          [counts[key] for key in ('waited', 'waited_ms', 'peak_in_flight')], counts)
    counts = report_of(starter(('spawn', CONFIG['tool'], 'burn', 1), max=1, scope='process'))
    check(counts is None and no_table(), 'nobody counts', counts)
    counts = report_of(starter(('spawn', CONFIG['tool'], '--version'), max=1))
    check(counts is None and no_table(), 'nobody has compiled', counts)


@case
def a_forked_child_that_compiles_nothing_writes_no_report():
    variables = environment(wait='10min') | {'GRAPHPOOL_REPORT': str(HERE / 'report-%p.json')}
    done = subprocess.run([CONFIG['pool'], CONFIG['fake_compiler'], 'call', '1', 'LLVMRunPasses', 'burn', 'child',
                           '4'],
                          env=variables, capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and not done.stderr, done)
    reports = list(HERE.glob('report-*.json'))
    check(len(reports) == 1, reports)


@case
def a_report_counts_compilers_that_were_killed():
    """A holder and a waiter: the one has had a permit, the other never ends its wait."""
    tool, numbers = CONFIG['tool'], [HERE / 'first', HERE / 'second']
    process = starter(('spawn', tool, 'pid', numbers[0], 'burn', 200000),
                      ('system', f'echo $$ > {numbers[1]}.new; mv {numbers[1]}.new {numbers[1]}; while ! test -e {numbers[0]}; '
                                 f'do sleep 0.02; done; exec {tool} burn 200000'), max=1)
    wait_for(lambda: all(number.exists() for number in numbers), 'both')
    wait_for(lambda: pathlib.Path(f'/proc/{int(numbers[1].read_text())}/comm').read_text() == 'clang-tool\n', 'the waiter')
    time.sleep(0.3)
    check(seen()['granted'] == 1, seen())
    for number in reversed(numbers):
        os.kill(int(number.read_text()), signal.SIGKILL)
    scope = report_of(process)['scope']
    check(scope['permits'] == 1 and scope['waited'] == scope['waited_ms'] == 0 and scope['peak_in_flight'] == 1, scope)
    finish(start(tool, 'burn', '1', max=1, wait='10min'))
    check_free()


# --- The storm: modules that together need more than there is ---

# Entries of the modules' tables: 400 000 are 130 MB to compile, beside code of the compiler that all share. Those that
# wait have 13 MB each: that a limit holds 64 of them, some of the full storm's modules are much larger.
MODULES = [400_000] * 10
FULL_MODULES = [30_000, 400_000, 30_000, 30_000, 400_000, 30_000, 30_000, 2_000_000] * 8
WIDE_BYTES = 1 << 30  # more than one takes


class MemoryGroup:
    """A control group with a limit where one can be made (version 1, as root); else a watcher kills the storm past it.
    The watcher knows each compilation, with all that it starts, by its process group."""

    def __init__(self, limit_bytes):
        self.folder = None
        self.most_bytes = 0
        self.limit_bytes = limit_bytes
        root = pathlib.Path('/sys/fs/cgroup/memory')
        try:
            own = next(line.split(':', 2)[2] for line in open('/proc/self/cgroup').read().splitlines()
                       if 'memory' in line.split(':')[1].split(','))
            folder = root / own.lstrip('/') / f'graphpool-storm-{os.getpid()}'
            folder.mkdir()
            self.folder = folder
            (folder / 'memory.limit_in_bytes').write_text(str(limit_bytes))
        except (StopIteration, OSError):
            self.close()

    def keys(self):
        """What the library must be told where the limit is the watcher's."""
        if self.folder:
            return {}
        available = next(int(line.split()[1]) * 1024 for line in open('/proc/meminfo') if line.startswith('MemAvailable'))
        return {'reserve': available - self.limit_bytes}

    def enter(self):
        os.setpgid(0, 0)
        if self.folder:
            (self.folder / 'cgroup.procs').write_text(str(os.getpid()))

    def watch(self, processes):
        """Until all have ended; true if the storm was killed."""
        while any(process.poll() is None for process in processes):
            if self.over(processes):
                return True
            time.sleep(0.02)
        return False

    def over(self, processes):
        if self.folder:
            return False
        bytes_now = self.own_bytes({process.pid for process in processes if process.poll() is None})
        self.most_bytes = max(self.most_bytes, bytes_now)
        if bytes_now <= self.limit_bytes:
            return False
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        return True

    @staticmethod
    def own_bytes(groups):
        """What the processes of these groups have that others do not share."""
        kib = 0
        for folder in pathlib.Path('/proc').glob('[0-9]*'):
            try:
                if int((folder / 'stat').read_text().rpartition(')')[2].split()[2]) not in groups:
                    continue
                kib += sum(int(line.split()[1]) for line in (folder / 'status').read_text().splitlines()
                           if line.startswith(('RssAnon:', 'RssShmem:')))
            except OSError:
                pass  # it has ended
        return kib << 10

    def peak(self):
        return int((self.folder / 'memory.max_usage_in_bytes').read_text()) if self.folder else self.most_bytes

    def close(self):
        if not self.folder:
            return
        for _ in range(50):
            try:
                self.folder.rmdir()
                break
            except OSError:
                time.sleep(0.1)
        self.folder = None


def storm_sources(sizes):
    """A module with a table of so many entries for each."""
    sources = []
    for i, size in enumerate(sizes):
        source = HERE / f'module{i}.hip'
        entries = ','.join(str(j * 7919 % 1000003 + i) for j in range(size))
        source.write_text(f'__attribute__((device)) const int table[] = {{{entries}}};\n'
                          '__attribute__((global)) void k(int* p, int i) { p[i] = table[i]; }\n')
        sources.append(source)
    return sources


def storm_command(clang, source, name):
    return [clang, '-x', 'hip', '--cuda-device-only', '--offload-arch=gfx90a', '-nogpulib', '-nogpuinc', '-O1', '-c',
            str(source), '-o', f'{source}.{name}.o']


def storm(clang, sources, name, preload, at_once, group=None, **keys):
    """Compiles all, so many at once; the objects, None for those that failed, and what was printed."""
    processes = []
    for source in sources:
        while sum(process.poll() is None for process in processes) >= at_once:
            if group and group.over(processes):
                break
            time.sleep(0.01)
        processes.append(subprocess.Popen(storm_command(clang, source, name), env=environment(preload, **keys), stdin=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE, preexec_fn=group.enter if group else None))
    if group:
        group.watch(processes)
    errors = [process.communicate()[1].decode() for process in processes]
    objects = [pathlib.Path(f'{source}.{name}.o') for source in sources]
    return [path.read_bytes() if path.exists() and process.returncode == 0 else None
            for path, process in zip(objects, processes)], errors


@case
def a_waiter_for_memory_gives_back_what_relocations_took():
    clang = shutil.which('clang-15') or shutil.which('clang')
    if not clang:
        raise Skipped('no clang')
    sources, end = storm_sources([1000]), HERE / 'end'
    serial, errors = storm(clang, sources, 'serial', False, 1)
    if None in serial:
        raise Skipped(f'this clang does not compile for AMD: {errors}')
    group = MemoryGroup(256 << 20)

    def has_kib(process):
        status = pathlib.Path(f'/proc/{process}/status').read_text()
        return int(re.search(r'RssAnon:\s+(\d+)', status)[1])

    def compile_one(name, **keys):
        return subprocess.Popen(storm_command(clang, sources[0], name), env=environment(**keys), stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, preexec_fn=group.enter)

    try:
        holder = start(CONFIG['tool'], 'await', end, wait='10min')
        wait_for(lambda: not no_table() and seen()['in_flight'] == 1, 'the holder')
        waiters = {'full': compile_one('full', max=1, wait='10min'), 'memory': compile_one('memory', wait='10min', **group.keys())}
        for waiter in waiters.values():
            wait_for(lambda: sleeps_with_table(waiter.pid), 'it waits')
        wait_for(lambda: has_kib(waiters['memory'].pid) < 5 << 10, 'what waits for memory has given it back')
        check(has_kib(waiters['full'].pid) > 8 << 10, 'what waits for something else has all', has_kib(waiters['full'].pid))
        check(seen()['in_flight'] == 1, seen())
        end.touch()
        finish(holder)
        for name, waiter in waiters.items():
            check(waiter.wait(120) == 0 and not waiter.communicate()[1], name, waiter)
            check(pathlib.Path(f'{sources[0]}.{name}.o').read_bytes() == serial[0], 'another object', name)
    finally:
        group.close()


@case
def storm_of_processes():
    clang = shutil.which('clang-15') or shutil.which('clang')
    if not clang:
        raise Skipped('no clang')
    sources = storm_sources(FULL_MODULES if FULL else MODULES)
    number = len(sources)
    group = MemoryGroup(WIDE_BYTES)
    try:
        serial, errors = storm(clang, sources, 'serial', False, 1, group=group)
        one_bytes = group.peak()
    finally:
        group.close()
    if None in serial:
        raise Skipped(f'this clang does not compile for AMD: {errors}')
    limit_bytes = one_bytes * 7 // 2
    group = MemoryGroup(limit_bytes)
    try:
        for attempt in range(5):  # on a busy machine they may miss each other
            native, _ = storm(clang, sources, f'native{attempt}', False, number, group=group)
            if None in native:
                break
        check(None in native, 'without the library nothing was killed: the storm is too small')
    finally:
        group.close()
    group = MemoryGroup(limit_bytes)
    try:
        permitted, errors = storm(clang, sources, 'permitted', True, number, group=group, max=number, **group.keys())
        check(None not in permitted, 'under the library a compilation failed', errors)
        check(permitted == serial, 'objects differ from those of a serial build')
        check(not any(errors), 'something was printed', errors)
        counts = seen()
        # The first runs alone: what one takes is not known before.
        check(counts['granted'] == number and 3 <= counts['peak'] < number, counts)
        check(any(size_bytes > 100 << 20 for size_bytes, _ in counts['sizes'].values()), 'no size was learnt', counts)
        print(f'{native.count(None)} of {number} killed without; with: peak in flight {counts["peak"]}, '
              f'{group.peak() >> 20} MiB of {limit_bytes >> 20}, sizes {counts["sizes"]}')
    finally:
        group.close()


# Modules, how many of four are large, instructions of those, permits. A large one takes 0.7 KB an instruction.
THREAD_STORM = (12, 3, 150_000, 6)
FULL_THREAD_STORM = (64, 1, 600_000, 8)


def llvm_storm(name, how, limit_kib=None, **keys):
    """Exit code, the most address space in KiB, and the objects, of a storm of threads in one process."""
    modules, large, instructions, _ = FULL_THREAD_STORM if FULL else THREAD_STORM
    folder = HERE / name
    folder.mkdir()
    # Few arenas: of each thread's own, most address space would be reserved and never used.
    variables = environment(**keys) | {'MALLOC_ARENA_MAX': '2', 'GRAPHPOOL_REPORT': str(HERE / 'report.json')}

    def limit():
        if limit_kib:
            resource.setrlimit(resource.RLIMIT_AS, (limit_kib << 10, limit_kib << 10))

    for library in ('libLLVM-15.so.1', 'libLLVM-14.so.1', 'libLLVM-19.so.1'):
        done = subprocess.run([CONFIG['llvm_storm'], library, folder, str(modules), str(large), str(instructions), how],
                              env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=limit,
                              timeout=580)
        if done.returncode != 77:
            break
    else:
        raise Skipped('no libLLVM')
    objects = [path.read_bytes() if path.exists() else None for path in (folder / f'{i}.o' for i in range(modules))]
    return done.returncode, int(done.stdout) if done.returncode == 0 else 0, objects, done.stderr


@case
def storm_of_threads():
    _, alone_kib, serial, _ = llvm_storm('serial', 'serial', preload=False)
    code, all_kib, native, said = llvm_storm('native', 'storm', preload=False)
    check(code == 0 and native == serial, 'without a limit', code, said)
    # Half of what all need at once beyond what one needs.
    limit_kib = (alone_kib + all_kib) // 2
    for attempt in range(5):  # on a busy machine they may miss each other
        code, _, _, _ = llvm_storm(f'failing{attempt}', 'storm', limit_kib, preload=False)
        if code != 0:
            break
    check(code != 0, 'without the library nothing failed: the storm is too small')
    started = time.monotonic()
    permits = (FULL_THREAD_STORM if FULL else THREAD_STORM)[3]
    code, kib, permitted, said = llvm_storm('permitted', 'storm', limit_kib, max=permits)
    check(code == 0, 'under the library it failed', code, said)
    check(all(': compile: waiting for ' in line for line in said.splitlines()), said)
    check(permitted == serial, 'objects differ from those of a serial build')
    counts = json.loads((HERE / 'report.json').read_text())['compile']
    check(counts['permits'] == len(serial) and 3 <= counts['peak_in_flight'] <= permits and counts['waited'], counts)
    print(f'{len(serial)} modules: {alone_kib >> 10} MiB one by one, {all_kib >> 10} MiB all at once, limit '
          f'{limit_kib >> 10} MiB: ended with {kib >> 10} MiB after {time.monotonic() - started:.1f} s, '
          f'peak in flight {counts["peak_in_flight"]}, sizes {counts["sizes"]}')


def main(arguments):
    global HERE, FULL
    FULL = '--full' in arguments
    with tempfile.TemporaryDirectory(prefix='permits-') as folder:
        HERE = pathlib.Path(folder)
        return cases.main([word for word in arguments if word != '--full'])


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
