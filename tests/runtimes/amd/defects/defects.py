"""defects.py BUILD SEEDED: checked mode finds what programs and a faulty library do wrong, on AMD's own runtimes.

defects.cpp is compiled against each runtime that scripts/amd has brought and run on HSA on the CPU of the build folder BUILD, in
checked mode: natively, under its library, and under SEEDED, the same library with a fault chosen by its number
(shim/base/seeded_defect.h). Each row of DEFECTS says what is to be found. What is right has no findings. Ends with 77 where no
runtime is there.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
from os import environ

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / 'amd'))
from amd_runtimes import roots_to_compile_for  # noqa: E402

FINDINGS_EXIT = 86
STAGED = {'GRAPHPOOL_BUFFERS': '[[buffer]]\nname = "all"\nstage = "always"\nrole = "inout"\n'}
PATCHED = {'GRAPHPOOL_GRAPH_STRATEGY': 'patch'}
OLD, NEW = ['5.7.1'], ['6.4.3', '7.2.4']

# Rows: what is wrong; the program; how it is run ('native', 'library', or the number of the fault in the library); variables of
# the environment; the kind of the finding; a pattern for who makes the access; the runtime's versions, where not all.
DEFECTS = [
    ('beyond the end by one element', 'beyond_end', 'native', {}, 'beyond', 'kernel fill'),
    ('an exec names memory that was freed', 'stale_exec', 'native', {}, 'freed', 'kernel fill'),
    ('an exec names memory that the library keeps', 'stale_exec', 'library', {}, 'kept', 'kernel fill'),
    ("a part of the library's chunks that was freed", 'stale_exec', 'library', {'GRAPHPOOL_POOL_BACKING': 'vmm'}, 'kept',
     'kernel fill', NEW),
    # AMD's runtimes take memory that they do not know for the host's, and copy it with the processor.
    ('a copy node reads memory that was freed', 'stale_copy_node', 'native', {}, 'freed', 'the host'),
    ('a copy node reads memory that the library keeps', 'stale_copy_node', 'library', {}, 'kept', '(copy|kernel .*copyBuffer)'),
    ('a structure in the arguments has a stale pointer', 'stale_structure', 'native', {}, 'freed', 'kernel add'),
    ('the same, and the library keeps the memory', 'stale_structure', 'library', {}, 'kept', 'kernel add'),
    ('host memory that no device was told of', 'host_memory', 'native', {}, 'unknown', 'kernel fill'),
    ('memory of the wrong device', 'wrong_device', 'native', {}, 'device', 'kernel fill'),
    ('memory of the wrong device', 'wrong_device', 'library', {}, 'device', 'kernel fill'),
    ('a mapping that only another device may access', 'access_of_another', 'native', {}, 'device', 'kernel fill', NEW),
    ('a chunk that was unmapped', 'unmapped_chunk', 'native', {}, 'unmapped', 'kernel fill', NEW),
    # These programs are right; the library has the fault.
    ('an update is ignored: a stale exec', 'updating', 10, {}, 'kept', 'kernel fill'),
    ("another binding's exec serves", 'moving', 4, {}, 'kept', 'kernel fill'),
    ('a node is not patched', 'moving', 3, PATCHED, 'kept', 'kernel add', OLD),  # later ones patch nothing on this device
    ('memory is kept while the device uses it', 'freed_while_busy', 8, {}, 'kept', 'kernel fill_slowly'),
]
# Rows: what is wrong; the program; the number of the fault; variables of the environment. Such a fault touches no wrong memory,
# so checked mode finds nothing: the program's output differs from that of a native run.
DIFFERENT = [('the end of what was staged is not copied out', 'copied_out', 6, STAGED)]
CLEAN = [('native', {}), ('library', {}), ('library', {'GRAPHPOOL_POOL_BACKING': 'vmm', 'GRAPHPOOL_POOL_CHUNK': '2MiB'}),
         ('library', {'GRAPHPOOL_POOL_FREE': 'deferred'}), ('library', STAGED), ('library', PATCHED), (0, {})]


class Runs:
    def __init__(self, root, folder, seeded):
        self.root, self.folder, self.seeded = root, folder, seeded
        self.program = root.compile(HERE / 'defects.cpp', folder / f'defects_{root.version}')

    def run(self, name, how, environment):
        """Returns (the ended process, the journal's lines about checked mode)."""
        journal = self.folder / 'journal'
        journal.unlink(missing_ok=True)
        variables = {'HSACPU_CHECKED': '1', 'HSACPU_DEVICES': '2', 'HSACPU_JOURNAL': str(journal), 'GRAPHPOOL_GRAPH_WEIGH': 'false'}
        preload = []
        if how != 'native':
            preload = ['--preload', self.root.build / 'hooks/libgraphpool.so' if how == 'library' else self.seeded]
            variables['SEEDED_DEFECT'] = str(how)
        done = subprocess.run(self.root.command(self.program, [name], options=preload), env={**environ, **variables, **environment},
                              capture_output=True, text=True, timeout=120, check=False)
        lines = journal.read_text().splitlines() if journal.exists() else []
        return done, [line for line in lines if line.startswith(('finding ', 'checked '))]


def check_defect(runs, what, name, how, environment, kind, who):
    done, lines = runs.run(name, how, environment)
    wanted = re.compile(f'finding kind={kind} who={who} where=')
    ends = (FINDINGS_EXIT,) if who != 'the host' else (-11,)  # the finding is reported, then the process dies
    if done.returncode in ends and any(wanted.match(line) for line in lines) and 'allocated by thread' in done.stderr:
        return []
    return [f'{what} ({name}, {how}): ended with {done.returncode}; wanted {wanted.pattern}; journal {lines}\n{done.stderr}']


def check_different(runs, what, name, fault, environment):
    native, faulty, right = (runs.run(name, how, environment) for how in ('native', fault, 'library'))
    if native[0].stdout and native[0].stdout == right[0].stdout != faulty[0].stdout:
        return []
    return [f'{what} ({name}): the same bytes with the fault, or others without it:\n{native[0].stdout}{faulty[0].stdout}{right[0].stdout}']


def check_clean(runs, how, environment, native_output):
    done, lines = runs.run('clean', how, environment)
    if done.returncode == 0 and lines == ['checked findings=0'] and not done.stderr and done.stdout == native_output:
        return []
    return [f'clean, {how} {environment}: ended with {done.returncode}, {lines}\n{done.stdout}{done.stderr}']


def check_version(runs, version):
    failures = []
    found = 0
    for what, name, how, environment, kind, who, *versions in DEFECTS:
        if versions and version not in versions[0]:
            continue
        failures += check_defect(runs, what, name, how, environment, kind, who)
        found += 1
    for row in DIFFERENT:
        failures += check_different(runs, *row)
        found += 1
    output = runs.run('clean', 'native', {})[0].stdout
    for how, environment in CLEAN:
        failures += check_clean(runs, how, environment, output)
    print(f'{version}: {found} defects, {len(CLEAN)} clean runs, {len(failures)} failures')
    return failures


def main(build, seeded):
    there = roots_to_compile_for(build)
    if not there:
        return 77
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for root in there:
            failures += check_version(Runs(root, pathlib.Path(folder), seeded), root.version)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
