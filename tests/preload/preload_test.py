#!/usr/bin/env python3
"""preload_test.py CONFIG CASE: one process-level test; preload_test.py --list: their names.

A case runs hosts natively and under the library and compares what they print, how they end and, where it says so, which
calls reached the CPU runtime. CONFIG (made by Meson): paths. Exit code 77: skipped, the last line says why.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import runs  # noqa: E402
from cases import CONFIG, Skipped, case, main  # noqa: E402
from hook_rows import row_lines  # noqa: E402


# For programs that close the runtime: what its tables hold is lost with them.
NO_LEAK_CHECK = {'ASAN_OPTIONS': os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'}


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
    return [line for line in text.splitlines() if line.startswith('graphpool[')]


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
    for _, _, line in row_lines(CONFIG['rows']):
        if match := re.match(r'HIP_(?:HOOK|NEXT)\s*\([^,]+, (\w+),|HIP_FORWARD\s*\((\w+),', line):
            yield match[1] or match[2]


# --- The library file ---

@case
def exports_only_hooks():
    aliases = re.findall(r'^HIP_ALIAS\(\w+, (\w+)\)', open(CONFIG['aliases']).read(), re.M)
    compiling = re.findall(r'^COMPILE_HOOK\([^,]+, (\w+),', open(CONFIG['compile_rows']).read(), re.M)
    expected = set(rows()) | set(aliases) | set(compiling) | {
        'dlsym', 'dlvsym', '_exit', '_Exit', 'pthread_create', 'pthread_setname_np', 'pthread_join', 'prctl',
        'pthread_cond_wait', 'pthread_cond_timedwait', 'pthread_cond_clockwait', 'sem_wait', 'sem_timedwait',
        'sem_clockwait'}
    check(len(expected) > 590, f'only {len(expected)} rows read')
    exported = {fields[-1] for fields in symbols('--defined-only')}
    check(exported == expected, f'exported, no row: {sorted(exported - expected)}\n'
                                f'row, not exported: {sorted(expected - exported)}')


# Libraries of their own before glibc 2.34, without code since; a library that loads beside older ones needs them.
OLD_PARTS_OF_LIBC = ['libpthread.so.0', 'libdl.so.2']


@case
def needs_only_libc():
    not_under_sanitizers('the sanitizer\'s library is needed too')
    done = subprocess.run(['readelf', '-dW', path('library')], capture_output=True, text=True, check=True)
    needed = re.findall(r'\(NEEDED\).*\[(.*)\]', done.stdout)
    check(set(needed) <= {'libc.so.6', 'libm.so.6', 'ld-linux-x86-64.so.2', *OLD_PARTS_OF_LIBC}, f'needed: {needed}')
    check('NODELETE' in done.stdout, 'the library may be unloaded')
    # Weak ones are hooks of the toolchain's own for things no program here has (transactional memory, profiling),
    # and of a runtime that checks each access to memory (shim/memory/memory_use.h).
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
    ours = [b'maps ' + pathlib.Path(name).name.encode() for name in [*library(), *OLD_PARTS_OF_LIBC]]
    rest = [line for line in second.stdout.splitlines() if line not in ours]
    if CONFIG['sanitize'] == 'none':
        check(rest == first.stdout.splitlines(), 'the program sees the library', first, second)
    check(second.code == 3 and not second.stderr, 'the library was noticed', second)
    check(not second.report, 'a report of a process without HIP')


@case
def program_with_an_auditor():
    not_under_sanitizers('their libraries have more thread-local data than the loader has for them then')
    auditor = {'LD_AUDIT': path('auditor')}
    first, second = native('plain', environment=auditor), under('plain', environment=auditor)
    check((first.code, first.stdout) == (second.code, second.stdout) and first.stdout, 'not as natively', first, second)


@case
def thread_names_without_an_end():
    same('thread_names', runtime=None, journal=False)


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


@case
def calls_of_threads_that_are_to_be_cancelled():
    not_under_sanitizers('they end a thread that is cancelled in the CPU runtime\'s journal')
    said = {'GRAPHPOOL_UNKNOWN_VARIABLE': '1', 'GRAPHPOOL_LOG_FILE': 'cancelled.log', 'GRAPHPOOL_LOG_LEVEL': 'debug'}
    same('cancelled', journal=False)
    _, run = same('cancelled', journal=False, environment=said)
    log = pathlib.Path('cancelled.log')
    check('GRAPHPOOL_UNKNOWN_VARIABLE' in log.read_text(), f'the log: {log.read_text()}', run)
    log.unlink()


@case
def files_past_a_limit():
    """Neither the report nor the log can be written; an earlier report stays."""
    with tempfile.TemporaryDirectory() as folder_name:
        log = pathlib.Path(folder_name) / 'log'
        first = native('file_limit', runtime='fake_runtime')
        report = log.with_name('report')
        second = native('file_limit', runtime='fake_runtime', preload=library()[-1:], environment={
            'GRAPHPOOL_UNKNOWN_VARIABLE': '1', 'GRAPHPOOL_LOG_FILE': str(log), 'GRAPHPOOL_REPORT': str(report)})
        check((first.code, second.code) == (0, 0) and first.stdout == second.stdout, 'differ', first, second)
        check(log.stat().st_size == 0 and os.listdir(folder_name) == ['log'], 'something was written', second)
        report.write_text('earlier')
        again = native('file_limit', runtime='fake_runtime', preload=library()[-1:],
                       environment={'GRAPHPOOL_LOG_LEVEL': 'off', 'GRAPHPOOL_REPORT': str(report)})
        check(again.code == 0 and report.read_text() == 'earlier', 'the earlier report is lost', again)
        check(sorted(os.listdir(folder_name)) == ['log', 'report'], 'something is left behind', again)


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
def memory_that_nobody_reuses_is_for_another_process():
    keeps_all = {'CPUHIP_MEMORY': str(64 << 20), 'GRAPHPOOL_POOL_LIMIT': '100%'}
    for call in ('malloc', 'free', 'wait'):
        for settings in ({}, {'GRAPHPOOL_POOL_BACKING': 'vmm', 'GRAPHPOOL_POOL_CHUNK': '2MiB'},
                         {'GRAPHPOOL_POOL_FREE': 'deferred'}):
            # A clock that is looked at in every call: how long the runs take does not matter.
            settings = {**keeps_all, **settings, 'GRAPHPOOL_POOL_IDLE': '999ms'}
            with tempfile.TemporaryDirectory() as shared:
                same('two_processes', call, environment={**settings, 'CPUHIP_SHARED': f'{shared}/memory'})
    with tempfile.TemporaryDirectory() as shared:
        run = under('two_processes', environment={**keeps_all, 'GRAPHPOOL_POOL_IDLE': '0s',
                                                  'CPUHIP_SHARED': f'{shared}/memory'})
    check(b'second has much, malloc 2' in run.stdout, 'the first process was to keep its memory', run)


@case
def fork_while_functions_are_found():
    not_under_sanitizers('the host stands before a function of theirs')
    same('fork_resolving')
    run = under('fork_resolving')
    check(re.search('children: [1-9]', run.stderr), 'nothing was looked for', run)


@case
def fork_after_hip():
    not_under_sanitizers('the child of a process with threads', ('thread',))
    same('fork_after')
    run = under('fork_after', environment={'GRAPHPOOL_LOG_LEVEL': 'info'})
    check(run.stderr.count(' of host time saved') == 1, 'the child passes through: one summary, the parent\'s', run)


@case
def exec_and_spawn():
    _, run = same('exec', code=9)
    hooked(run, 'hipMalloc')


@case
def fork_while_a_report_is_written():
    """The child compiles, which asks whether there is to be a report."""
    not_under_sanitizers('the child of a process with threads', ('thread',))
    with tempfile.TemporaryDirectory() as folder_name:
        pipe = os.path.join(folder_name, 'report')
        os.mkfifo(pipe)
        first = native('fork_reporting')
        second = native('fork_reporting', pipe, preload=library(),
                        environment={'GRAPHPOOL_REPORT': pipe, 'GRAPHPOOL_REPORT_EVERY': '1ms'})
    check(first.code == 0 and 'child was ended by 0' in first.stdout.decode(), 'natively', first)
    check((second.code, second.stdout) == (first.code, first.stdout), 'native run and run under the library differ', first, second)


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
def lookups_in_a_scope_of_their_own():
    same('scoped', path('scoped_plugin'), environment=NO_LEAK_CHECK)


@case
def error_that_is_pending_while_hiprtc_compiles():
    same('rtc_error', runtime='cpu_so6')


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
    # Meson puts the folders of the tests' own runtimes into LD_LIBRARY_PATH.
    ours = {folder(name) for name in ('cpu', 'cpu_so6', 'cpu_so7', 'fake_runtime')}
    others = [entry for entry in os.environ.get('LD_LIBRARY_PATH', '').split(':') if entry and entry not in ours]
    only_installed = {'LD_LIBRARY_PATH': ':'.join(others)}
    first = native('real_errors', runtime=None, environment=only_installed)
    if b'is 50' not in first.stdout:
        raise Skipped(f'the installed runtime is not a 5.x or does not start: {show(first)}')
    first, second = same('real_errors', runtime=None, code=first.code, environment=only_installed)
    check(not first.calls and not second.calls, 'a runtime of the tests was found', first, second)
    check(second.report['calls'].get('hipMalloc'), 'the program was not under the library', second)


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
def another_copy_of_the_library():
    not_under_sanitizers('two instrumented libraries define the same')
    copy = pathlib.Path('libcopy.so').resolve()
    shutil.copy(path('library'), copy)
    first = native('allocations')
    second = under('allocations', preload=[path('library'), copy])
    copy.unlink()
    check((second.code, second.stdout) == (first.code, first.stdout), 'differ', first, second)
    said = lines_of(second.stderr)
    check(len(said) == 1 and 'preloaded twice' in said[0], 'one line', second)
    check(second.report['pool']['allocations_from_runtime'] > 0, f'the second copy works: {second.report}')


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
    off = native('bypass', plugin, preload=library(), environment={'GRAPHPOOL_GRAPH_COMPARE': 'false'})
    check(off.stdout == first.stdout, 'without virtual captures the plugin does no harm', off)


@case
def report_of_a_process_that_hangs():
    """In a call of the runtime, for ever; then it is killed."""
    with tempfile.TemporaryDirectory() as folder_name:
        written = pathlib.Path(folder_name) / 'report.json'
        environment = dict(runs.clean_environment(), LD_LIBRARY_PATH=folder('cpu'), LD_PRELOAD=':'.join(library()),
                           GRAPHPOOL_REPORT=str(written), GRAPHPOOL_REPORT_EVERY='5ms')
        with subprocess.Popen([path('hangs')], env=environment, stdout=subprocess.PIPE) as host:
            check(host.stdout.readline() == b'hangs now\n', 'the host did not come so far')
            deadline = time.monotonic() + 60
            report = {}
            while report.get('calls', {}).get('hipStreamSynchronize') != 1 and time.monotonic() < deadline:
                time.sleep(0.01)
                try:
                    report = json.loads(written.read_text())
                except (OSError, ValueError):  # not yet there, or not yet all of it
                    continue
            host.kill()
    check(report.get('ended') is False and report['calls'].get('hipStreamSynchronize') == 1, f'the report: {report}')
    check(report['graphs']['captures_avoided'] > 0, f'the report: {report}')


@case
def report_while_it_runs():
    first, second = same('plain', code=7, environment={'GRAPHPOOL_REPORT_EVERY': '1ms'})
    check(second.report.get('ended') is True, f'the last report: {second.report}', second)
    child = native('fork_after', preload=library(), environment={
        'GRAPHPOOL_REPORT_EVERY': '1ms', 'GRAPHPOOL_REPORT': os.devnull})
    check(child.code == native('fork_after').code, 'a fork', child)


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


# --- The rows: what becomes of pointers and of work (rules 16 and 24) ---

# Parameters that may point to device memory, by type; of void pointers those whose names do not say otherwise.
DEVICE_POINTERS = {'hipDeviceptr_t', 'hipPitchedPtr', 'const hipMemcpy3DParms*', 'const hip_Memcpy2D*',
                   'const HIP_MEMCPY3D*'}
NOT_DEVICE_MEMORY = {
    'host memory': 'hstPtr hostPtr srcHost dstHost init_value arg',
    'a variable, function or image': 'symbol symbolPtr var f fPtr fun func function_address hostFunction image fatbin',
    'handed to a callback': 'userData',
    'a handle': 'object library hip_link_state handle shared_handle shareableHandle osHandle hipModule kernel ctx',
    'a value in or out': 'value data edges',
    'a wish': 'addr',
    'a structure that newer headers declare': 'params opList attrs paramArray launchParamsList p',
}
BY_ROW = {'hipMemcpyAtoH': 'its dst is host memory', 'hipGraphMemFreeNodeGetParams': 'its dev_ptr is the answer',
          'hipKernelSetAttributeForDevice': 'its arguments are handed on as they are; HIP has published no declaration',
          'hipKernelSetCacheConfig': 'the same'}


def split_arguments(text):
    parts, depth, begin = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in '(<') - (character in ')>')
        if character == ',' and depth == 0:
            parts.append(text[begin:index].strip())
            begin = index + 1
    return [*parts, text[begin:].strip()]


def typed_rows():
    """Kind, name, parameters as (type, name), effect of every row; parameters are None where the row has none."""
    for _, _, line in row_lines(CONFIG['rows']):
        if match := re.match(r'HIP_FORWARD\((\w+), [\w.]+, (.*)\)$', line.strip()):
            yield 'FORWARD', match[1], None, match[2]
        elif match := re.match(r'HIP_(HOOK|NEXT)\((.*)\)$', line.strip()):
            _, name, parameters, _, _, _, effect = split_arguments(match[2])
            words = [re.match(r'(.*?)(\w+)$', part) for part in split_arguments(parameters[1:-1])]
            yield match[1], name, [(word[1].strip(), word[2]) for word in words if word], effect


def body_of(name):
    hooks = pathlib.Path(__file__).resolve().parents[2] / 'hooks'
    for file in [hooks / 'hot_bodies.h', *sorted(hooks.glob('*_hooks.cpp'))]:
        if match := re.search(rf'^(?:inline )?hipError_t on_{name}\(.*?^}}', file.read_text(), re.M | re.S):
            return match[0]
    return ''


@case
def rule_24_every_device_pointer_has_a_row_that_says_what_becomes_of_it():
    other = {name for names in NOT_DEVICE_MEMORY.values() for name in names.split()}
    unsaid, looked_at = [], 0
    for kind, name, parameters, effect in typed_rows():
        for type_, parameter in parameters or []:
            void = type_ in ('void*', 'const void*') and parameter not in other
            if not void and type_ not in DEVICE_POINTERS:
                continue
            looked_at += 1
            about = rf'^(Copy|Fill|Names|Stream(Copy|Fill)|GraphAdd|NodeChange|ExecChange).*\b{parameter}\b'
            if re.search(about, effect) or name in BY_ROW:
                continue
            # A body of its own must hand this pointer to the parts that know device memory or to what records operands.
            if kind == 'HOOK' and re.search(r'(address_guard|blocks|block_table|device_memory|memory_room)\(\)|\b(copy|fill|free|part_of_chunk|checked_params)\(', body_of(name)):
                continue
            unsaid.append(f'{type_} {parameter} of {name}: {kind} {effect}')
    check(looked_at > 100, f'only {looked_at} pointers were looked at')
    check(not unsaid, 'nothing says what becomes of\n' + '\n'.join(unsaid))


@case
def rule_16_every_row_that_enqueues_work_counts_it():
    asks = re.compile(r'Get|Is|Query|Synchronize|Flags|Priority|Attributes?$|Capture|Create|Destroy')
    uncounted, counted = [], 0
    for kind, name, parameters, effect in typed_rows():
        streams = [parameter for type_, parameter in parameters or [] if type_ == 'hipStream_t']
        verb = re.search(r'Launch|Memcpy|Memset|MemOp|Async|Prefetch|WaitEvent|WaitValue|WriteValue', name)
        if not verb or re.search(r'Graph|Node|HostFunc_t|LaunchParams', name) or (asks.search(name) and not streams):
            continue
        # Generic effects count by themselves; other bodies do it themselves, directly or by what records operations.
        by_body = re.search(r'note_work|note_uncaptured|wait_event|captured_(operation|call)|copy\(|fill\(|launch\(|allocate\(', body_of(name))
        if re.match(r'StreamWork|StreamCopy|StreamFill|StreamBatch|WorkAnywhere|NullWork|Copy|Fill', effect) or \
                (kind == 'HOOK' and by_body):
            counted += 1
        else:
            uncounted.append(f'{name}: {kind} {effect}')
    check(counted > 100, f'only {counted} rows count')
    # 5.x lists it in its map; no header declares it, so nobody can call it.
    check(uncounted == ['hipModuleLaunchKernelExt: FORWARD Stream'], 'work that no free waits for\n' + '\n'.join(uncounted))


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
def programs_with_more_rights_than_their_callers_pass_through():
    not_under_sanitizers('their libraries must come first, and nothing is preloaded')
    program, report = pathlib.Path('secure').resolve(), pathlib.Path('secure.json').resolve()
    shutil.copy(path('secure'), program)
    report.unlink(missing_ok=True)
    run = [subprocess.run([program], env={'GRAPHPOOL_REPORT': str(report)}, capture_output=True, check=True)]
    check(report.exists() and b'malloc 0' in run[0].stdout, 'without more rights it ends with a report')
    report.unlink()
    try:
        os.chown(program, -1, os.getegid() + 1)
    except PermissionError:
        raise Skipped('only root can give rights')
    program.chmod(0o2755)
    run.append(subprocess.run([program], env={'GRAPHPOOL_REPORT': str(report), 'GRAPHPOOL_UNKNOWN_VARIABLE': '1'},
                              capture_output=True, check=True))
    program.unlink()
    if run[1].stdout.startswith(b'secure 0'):
        raise Skipped('this file system gives no rights')
    check(run[1].stdout == run[0].stdout.replace(b'secure 0', b'secure 1'), f'{run[0].stdout} and {run[1].stdout}')
    check(not run[1].stderr and not report.exists(), f'its caller has a say: {run[1].stderr}')


@case
def messages_stay_out_of_the_hosts_files():
    same('closed_stderr', environment={'GRAPHPOOL_UNKNOWN_VARIABLE': '1'})


@case
def switched_off():
    first, second = same('plain', code=7, environment={'GRAPHPOOL_ENABLED': 'false'})
    check(first.calls == second.calls, f'calls: {first.calls} and {second.calls}')


@case
def plain_program():
    same('plain', code=7)
    same('allocations')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
