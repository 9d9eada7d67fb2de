#!/usr/bin/env python3
"""preload_test.py CONFIG CASE: one process-level test; preload_test.py --list: their names.

A case runs hosts natively and under the library and compares what they print, how they end and, where it says so, which
calls reached the CPU runtime. CONFIG (made by Meson): paths. Exit code 77: skipped, the last line says why.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import runs  # noqa: E402

CASES = {}
CONFIG = {}


# For programs that close the runtime: what its tables hold is lost with them.
NO_LEAK_CHECK = {'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'}


class Skipped(Exception):
    pass


def case(function):
    CASES[function.__name__] = function
    return function


def path(name):
    return CONFIG[name]


def folder(runtime):
    return str(pathlib.Path(path(runtime)).parent)


def library():
    return [*filter(None, CONFIG['before'].split(',')), path('library')]


def not_under_sanitizers(reason, which=('address', 'thread')):
    if any(name in CONFIG['sanitize'] for name in which):
        raise Skipped(f'under {CONFIG["sanitize"]}: {reason}')


def lines_of(text):
    return [line for line in text.splitlines() if line.startswith('graphpool:')]


def show(run):
    return f'code {run.code}\n{run.stdout.decode(errors="replace")}--- stderr\n{run.stderr}'


def check(condition, message, *shown):
    if not condition:
        raise AssertionError('\n'.join([message, *(show(run) for run in shown)]))


def native(host, *arguments, runtime='cpu', preload=(), **options):
    before = [*filter(None, CONFIG['before'].split(','))] if preload else []
    return runs.run([path(host), *arguments], runtime=folder(runtime) if runtime else None,
                    preload=[*before, *preload], **options)


def under(host, *arguments, runtime='cpu', preload=None, **options):
    return runs.run([path(host), *arguments], runtime=folder(runtime) if runtime else None,
                    preload=library() if preload is None else preload, report=True, **options)


def same(host, *arguments, runtime='cpu', code=0, quiet=True, **options):
    """Both runs print the same and end the same; the library says nothing."""
    first = native(host, *arguments, runtime=runtime, **options)
    check(first.code == code and first.stdout, f'natively: expected code {code} and output', first)
    second = under(host, *arguments, runtime=runtime, **options)
    check((second.code, second.stdout) == (first.code, first.stdout), 'native run and run under the library differ',
          first, second)
    if quiet:
        check(not lines_of(second.stderr), 'the library said something', second)
    return first, second


def hooked(run, name, at_least=1):
    """The call went through the library."""
    calls = run.report.get('calls', {})
    check(calls.get(name, 0) >= at_least, f'{name} did not go through the library: {calls}', run)


def symbols(*options):
    done = subprocess.run(['nm', '-D', *options, path('library')], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def rows():
    """The name of each row."""
    with open(CONFIG['rows']) as file:
        for line in file:
            if match := re.match(r'HIP_(?:HOOK|NEXT)\s*\([^,]+, (\w+),|HIP_FORWARD\s*\((\w+),', line):
                yield match[1] or match[2]


# --- The library file ---

@case
def exports_only_hooks():
    aliases = re.findall(r'^HIP_ALIAS\(\w+, (\w+)\)', open(CONFIG['aliases']).read(), re.M)
    compiling = re.findall(r'^COMPILE_HOOK\([^,]+, (\w+),', open(CONFIG['compile_rows']).read(), re.M)
    expected = set(rows()) | set(aliases) | set(compiling) | {'dlsym', 'dlvsym'}
    check(len(expected) > 590, f'only {len(expected)} rows read')
    exported = {fields[-1] for fields in symbols('--defined-only')}
    check(exported == expected, f'exported, no row: {sorted(exported - expected)}\n'
                                f'row, not exported: {sorted(expected - exported)}')


@case
def needs_only_libc():
    not_under_sanitizers('the sanitizer\'s library is needed too')
    done = subprocess.run(['readelf', '-dW', path('library')], capture_output=True, text=True, check=True)
    needed = re.findall(r'\(NEEDED\).*\[(.*)\]', done.stdout)
    check(set(needed) <= {'libc.so.6', 'libm.so.6', 'ld-linux-x86-64.so.2'}, f'needed: {needed}')
    check('NODELETE' in done.stdout, 'the library may be unloaded')
    # Weak ones are hooks of the toolchain's own for things no program here has (transactional memory, profiling).
    undefined = {fields[-1] for fields in symbols('--undefined-only') if fields[-2] == 'U'}
    foreign = {name for name in undefined if '@GLIBC_' not in name}
    check(not foreign, f'undefined and not of the C library: {sorted(foreign)}')
    own = {fields[-1] for fields in symbols('--undefined-only') if 'graphpool' in fields[-1]}
    check(not own, f'undefined and our own: {sorted(own)}')


# --- Programs without HIP ---

@case
def program_without_hip():
    first = native('no_hip', runtime=None)
    check(first.code == 3, 'natively', first)
    second = under('no_hip', runtime=None)
    ours = [b'maps ' + pathlib.Path(name).name.encode() for name in library()]
    rest = [line for line in second.stdout.splitlines() if line not in ours]
    if CONFIG['sanitize'] == 'none':
        check(rest == first.stdout.splitlines(), 'the program sees the library', first, second)
    check(second.code == 3 and not second.stderr, 'the library was noticed', second)
    check(not second.report, 'a report of a process without HIP')


@case
def dlsym_wrapped_by_another_library():
    not_under_sanitizers('the wrapper is not instrumented')
    wrapper = path('dlsym_wrapper')
    first = native('no_hip', runtime=None, preload=[wrapper])
    check(first.code == 3 and b'wrapper: cos' in first.stdout, 'natively, the wrapper sees the lookup', first)
    expected = [line for line in first.stdout.splitlines() if not line.startswith(b'maps ')]
    for order in ([wrapper, *library()], [*library(), wrapper]):
        second = under('no_hip', runtime=None, preload=order)
        found = [line for line in second.stdout.splitlines() if not line.startswith(b'maps ')]
        check((second.code, found) == (3, expected), f'preloaded {order}', first, second)
        lookups = under('linked_lookups', preload=order)
        check(lookups.stdout == native('linked_lookups').stdout, f'preloaded {order}', lookups)


@case
def program_under_address_sanitizer():
    not_under_sanitizers('the library is instrumented itself')
    run = under('plain_address', preload=[*filter(None, CONFIG['libasan'].split(',')), *library()])
    first = native('plain_address')
    check((first.code, run.code) == (7, 7) and run.stdout == first.stdout, 'differ', first, run)
    hooked(run, 'hipMalloc')


@case
def program_under_thread_sanitizer():
    """Its runtime looks functions up before it has set itself up. The HIP runtime is not instrumented: no reports."""
    not_under_sanitizers('the library is instrumented itself')
    _, run = same('plain_thread', code=7, environment={'TSAN_OPTIONS': 'report_bugs=0'})
    hooked(run, 'hipMalloc')


# --- When calls come ---

@case
def calls_before_our_constructor():
    _, run = same('early')
    hooked(run, 'hipMalloc', 3)


@case
def calls_after_main():
    _, run = same('late', code=5)
    hooked(run, 'hipMalloc', 2)


@case
def threads_call_while_main_exits():
    not_under_sanitizers('threads that run during the exit are reported natively as well', ('thread',))
    for _ in range(5):
        same('exit_threads', code=6, journal=False)


@case
def first_call_while_another_thread_loads_a_plugin():
    same('open_while_starting', path('slow_plugin'))
    if 'thread' in CONFIG['sanitize']:
        return  # libunwind locks a mutex when a thread ends, after TSan has taken that thread's state down
    # With call sites the library itself opens another one while it starts.
    same('open_while_starting', path('slow_plugin'), environment={'GRAPHPOOL_REPORT_CALLSITES': 'true'})


# --- Processes ---

@case
def fork_before_hip():
    first, run = same('fork_before', environment={'GRAPHPOOL_POOL_ENABLED': 'false'})
    run.calls.pop('hipGetDevice', None)  # the library asks on its own account
    check(first.calls <= run.calls, f'calls: {first.calls} and {run.calls}')
    hooked(run, 'hipMalloc')


@case
def fork_before_hip_child_is_served():
    run = under('fork_before', environment={'GRAPHPOOL_LOG_LEVEL': 'info'})
    check(run.stderr.count('graphpool') >= 2, 'both processes end with a summary', run)


@case
def fork_after_hip():
    not_under_sanitizers('the child of a process with threads', ('thread',))
    same('fork_after')
    run = under('fork_after', environment={'GRAPHPOOL_LOG_LEVEL': 'info'})
    check(run.stderr.count('captures recorded') == 1, 'the child passes through: one summary, the parent\'s', run)


@case
def exec_and_spawn():
    _, run = same('exec', code=9)
    hooked(run, 'hipMalloc')


@case
def fork_handlers():
    not_under_sanitizers('the child of a process with threads', ('thread',))
    same('atfork')


# --- How functions are found ---

@case
def opened_rtld_local():
    _, run = same('open_local', path('cpu'), runtime=None, environment=NO_LEAK_CHECK)
    hooked(run, 'hipMalloc')
    hooked(run, 'hipGetDeviceCount')


@case
def opened_by_name():
    _, run = same('open_local', 'libamdhip64.so.5', environment=NO_LEAK_CHECK)
    hooked(run, 'hipMalloc')


@case
def opened_rtld_local_lacks_functions():
    _, run = same('open_local', path('fake_runtime'), runtime=None)
    hooked(run, 'hipMalloc')


@case
def python_ctypes():
    not_under_sanitizers('Python is not instrumented')
    script = '\n'.join([
        'import ctypes',
        f'hip = ctypes.CDLL({path("cpu")!r})',
        'p = ctypes.c_void_p()',
        'print(hip.hipMalloc(ctypes.byref(p), ctypes.c_size_t(1000)), p.value is not None, hip.hipFree(p))',
        'print(hasattr(hip, "hipNobodyHasThis"))'])
    first = runs.run([sys.executable, '-c', script])
    check(first.code == 0, 'natively', first)
    second = runs.run([sys.executable, '-c', script], preload=library(), report=True)
    check((second.code, second.stdout) == (0, first.stdout), 'under the library', first, second)
    hooked(second, 'hipMalloc')


@case
def lookups_of_a_linked_program():
    same('linked_lookups')


@case
def lookups_of_a_program_with_fixed_addresses():
    same('linked_lookups_fixed')


@case
def hip_get_proc_address():
    _, run = same('proc_address', runtime='cpu_so6')
    hooked(run, 'hipMalloc')
    hooked(run, 'hipFree')


@case
def second_runtime_in_the_process():
    same('two_runtimes', path('cpu_so6'))


@case
def runtimes_of_hip_6_and_7():
    for version in ('so6', 'so7'):
        _, run = same(f'plain_{version}', runtime=f'cpu_{version}', code=7)
        hooked(run, 'hipMalloc')


@case
def every_function_by_plt():
    call_every_function('plt')


@case
def every_function_by_dlsym():
    call_every_function('dlsym')


@case
def every_function_by_dlvsym():
    call_every_function('dlvsym')


def call_every_function(way):
    not_under_sanitizers('null pointers are dereferenced natively')
    names = set(rows())
    first = native('call_all', way)
    second = under('call_all', way, environment={'GRAPHPOOL_POOL_ENABLED': 'false'})
    mine, theirs = (run.stdout.decode().splitlines() for run in (first, second))
    check(first.code == 0 and len(mine) == len(names), 'natively', first)
    different = [pair for pair in zip(mine, theirs) if pair[0] != pair[1]]
    check(second.code == 0 and mine == theirs, f'native answer and answer under the library: {different}')
    # A call that crashes leaves no line in the journal.
    crashed = {line.split()[0] for line in mine if ' ended with status ' in line}
    check(len(crashed) <= 12, f'crash natively: {sorted(crashed)}')
    for run in (first, second):
        missing = names - crashed - set(run.calls)
        check(not missing, f'not in the journal: {sorted(missing)}')


# --- Runtimes of other kinds ---

@case
def runtime_that_calls_its_own_exports():
    for pool in ('false', 'true'):
        _, run = same('on_fake', runtime='fake_runtime', environment={'GRAPHPOOL_POOL_ENABLED': pool})
        hooked(run, 'hipMallocPitch')
        hooked(run, 'hipMalloc')  # only the runtime itself calls it


@case
def real_runtime_without_gpu():
    not_under_sanitizers('AMD\'s library is not instrumented and its loader dlopens with RTLD_DEEPBIND', ('thread',))
    if os.path.exists('/dev/kfd'):
        raise Skipped('there is an AMD GPU: answers are not those of a machine without one')
    first = native('real_errors', runtime=None)
    if b'is 50' not in first.stdout:
        raise Skipped(f'the installed runtime is not a 5.x or does not start: {show(first)}')
    same('real_errors', runtime=None, code=first.code)


# --- Other libraries that reach into HIP (rules 5 and 39) ---

@case
def rule_39_another_library_owns_memory():
    owner = path('owner')
    first = native('allocations', preload=[owner])
    check(first.code == 0 and first.stdout.count(b'owner: hipMalloc') == 8, 'natively', first)
    second = under('allocations', preload=[*library(), owner])
    check((second.code, second.stdout) == (0, first.stdout), 'every call reaches the owner', first, second)
    said = lines_of(second.stderr)
    check(len(said) == 1 and 'hipMalloc' in said[0], 'one line says that the pool is off', second)
    # In front of us it sees the program's calls itself: nothing is off.
    before = under('allocations', preload=[*library()[:-1], owner, library()[-1]])
    check((before.code, before.stdout) == (0, first.stdout), 'owner in front', first, before)
    check(not lines_of(before.stderr), 'owner in front: nothing to say', before)


@case
def rule_05_captured_past_the_library():
    not_under_sanitizers('they refuse RTLD_DEEPBIND')
    plugin = path('bypass_plugin')
    first = native('bypass', plugin)
    check(first.code == 0 and first.stdout.count(b'end 0') == 6, 'natively', first)
    second = under('bypass', plugin)
    check(second.code == 0, 'under the library', second)
    mine, theirs = ([step.splitlines() for step in run.stdout.decode().split('step ')] for run in (first, second))
    check(len(mine) == len(theirs), 'the same number of steps', first, second)
    for step in (0, 1, 2, 3, 5, 6):  # element 0: before the first step
        check(mine[step] == theirs[step], f'step {step - 1} differs', first, second)
    check('end 901' in theirs[4], 'step 3: the capture is invalidated', second)
    said = lines_of(second.stderr)
    check(len(said) == 1 and 'past the library' in said[0], 'one line', second)
    check(second.report['graphs']['captures_avoided'] == 2, f'only steps 1 and 2 were virtual: {second.report}')
    off = native('bypass', plugin, preload=library(), environment={'GRAPHPOOL_GRAPH_VIRTUAL_CAPTURE': 'false'})
    check(off.stdout == first.stdout, 'without virtual captures the plugin does no harm', off)


@case
def unknown_function_imported():
    _, run = same('unknown_import', runtime='fake_runtime', quiet=False)
    said = lines_of(run.stderr)
    check(len(said) == 1 and 'hipFutureLaunch' in said[0] and 'imported' in said[0], 'one line', run)
    trusted = under('unknown_import', runtime='fake_runtime', environment={'GRAPHPOOL_GRAPH_UNKNOWN': 'trust'})
    check(not lines_of(trusted.stderr), 'trusted by the policy', trusted)


@case
def unknown_function_looked_up():
    for when in ('early', 'late'):
        _, run = same('unknown_lookup', when, runtime='fake_runtime', quiet=False)
        said = lines_of(run.stderr)
        check(len(said) == 1 and 'hipFutureLaunch' in said[0] and 'looked up' in said[0], f'{when}: one line', run)


@case
def unknown_function_unused():
    same('uses_none', runtime='fake_runtime')


# --- Policy ---

@case
def malformed_policy():
    first = native('plain')
    policy = pathlib.Path('malformed.toml').resolve()
    for text, place, word in (('[pool]\nchunk = \n', ':2:', 'chunk'), ('[pool]\n\nbackin = "vmm"\n', ':3:', 'backing'),
                              ('[pool]\nbacking = "fast"\n', ':2:', 'classic')):
        policy.write_text(text)
        second = under('plain', environment={'GRAPHPOOL_POLICY': str(policy)})
        check((second.code, second.stdout) == (first.code, first.stdout), 'passed through', first, second)
        check(second.calls == first.calls, f'calls: {first.calls} and {second.calls}')
        check(str(policy) + place in second.stderr, f'expected {policy}{place}', second)
        check(word in second.stderr or 'chunk' in text, f'expected {word}', second)
    policy.unlink()


@case
def switched_off():
    first, second = same('plain', code=7, environment={'GRAPHPOOL_ENABLED': 'false'})
    check(first.calls == second.calls, f'calls: {first.calls} and {second.calls}')


@case
def plain_program():
    same('plain', code=7)
    same('allocations')


def main(arguments):
    if arguments == ['--list']:
        print('\n'.join(CASES))
        return 0
    with open(arguments[0]) as file:
        CONFIG.update(json.load(file))
    try:
        CASES[arguments[1]]()
    except Skipped as reason:
        print(reason)
        return 77
    except AssertionError as failure:
        print(failure)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
