"""real_programs.py [--sample] [--checked] BUILD [NAME...]: programs of others, unmodified, on AMD's own runtimes and HSA on the CPU: each
natively and under the library of the build folder BUILD. What they say of each of their tests, or print, has to be the same.

`scripts/amd --rccl --rocblas --hipblaslt --llama --hipcub` brings them. NAME is a pattern (rccl*). --sample: fewer tests of
each, for a machine that checks every change. --checked: each access of each kernel and copy is held against live memory, and
what is found fails the run. Prints a table; exit code 1: something failed or differs, 77: none of them is there.
"""
import argparse
import collections
import dataclasses
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'amd'))
import server  # noqa: E402
from amd_runtimes import LIBRARIES, TOP, Root  # noqa: E402

GFX906, GFX908, GFX90A = 'gfx906:sramecc-:xnack-', 'gfx908:sramecc+:xnack-', 'gfx90a:sramecc+:xnack-'

HIP_DEVICES = [isa[:6] for isa in (GFX906, GFX90A)]  # that a source with kernels is compiled for

# What a run gave: its exit code, and what it says of each of its tests.
Outcome = collections.namedtuple('Outcome', 'code tests')


def google_tests(text):
    return {name: word for word, name in re.findall(r'^\[ +(OK|FAILED) +\] ([\w./]+) \(', text, re.M)}


def operator_tests(text):
    plain = re.sub(r'\x1b\[[0-9;]*m', '', text)
    return {name: word for name, word in re.findall(r'^  (\w+\(.*\)): (?:.*\s)?(OK|FAIL|not supported.*)$', plain, re.M)}


def lines(text):
    return dict(enumerate(text.splitlines()))


def whole(text):
    return {'output': hashlib.sha256(text.encode()).hexdigest()}


@dataclasses.dataclass
class Program:
    name: str
    about: str
    runtime: str
    packages: tuple  # folders of build-amd; the first is the program's
    command: tuple  # {NAME}: a folder of `packages`, {made}: what is made here
    read: object  # of the output: what it says of each test
    environment: dict = dataclasses.field(default_factory=dict)
    sample: tuple = ()  # arguments of a sample
    right: tuple = ('OK',)  # what a test says that is passed; (): whatever it says
    folder: str = ''  # where it runs: {made}
    serves: bool = False  # a server: it is asked for completions
    forks: bool = False  # its work is done in processes that end without a report
    served: str = ''  # how many captures the library serves, and of how many; '': not compared
    limit_s: int = 3600


def rccl_tests(version, program, processes, arguments=(), **more):
    mask = {'one': '1', 'several': '2'}[processes]
    runtime = {'5.4.3': '5.7.1', '7.2.4': '7.2.4'}[version]
    environment = {'HSACPU_DEVICES': '2', 'UT_PROCESS_MASK': mask, **more.pop('environment', {})}
    return Program(f'rccl_{version}_{processes}', f"RCCL {version}'s unit tests, {processes} process{'es' * (processes != 'one')}",
                   runtime, ('rccl',), (f'{{rccl}}/usr/libexec/rocm/librccl1-tests/{program}', *arguments), google_tests,
                   environment=environment, forks=True, **more)


# A time limit of its own is raised, and a test of how fast it is is left out; without the switch it reads the kernel's files.
RCCL_7 = {'RCCL_USE_ROCM_SMI_LIB': '1', 'HSACPU_ISA': GFX908, 'UT_TIMEOUT_US': '600000000'}
NOT_TIMES = ('--gtest_filter=-*RegressionTiming*',)
TRAINING = (('one', 'one thread, two devices', 2, ('--mode', 'one')),
            ('threads', 'two threads', 2, ('--mode', 'threads')),
            ('processes', 'two processes', 2, ('--mode', 'processes')),
            ('updated', 'one exec updated', 2, ('--mode', 'one', '--update', '1')),
            ('split', 'communicators that are split', 2, ('--mode', 'threads', '--end', 'split')),
            ('abort', 'communicators that are aborted', 2, ('--mode', 'threads', '--end', 'abort')),
            ('finalize', 'communicators that are finalized', 2, ('--mode', 'threads', '--end', 'finalize')),
            ('registered', 'buffers registered, two processes', 2, ('--mode', 'processes', '--register', '1')),
            ('split_processes', 'communicators that are split, two processes', 2, ('--mode', 'processes', '--end', 'split')),
            ('abort_processes', 'communicators that are aborted, two processes', 2, ('--mode', 'processes', '--end', 'abort')),
            ('finalize_processes', 'communicators that are finalized, two processes', 2, ('--mode', 'processes', '--end', 'finalize')),
            ('four', 'four threads', 4, ('--mode', 'threads')),
            ('four_processes', 'four processes', 4, ('--mode', 'processes')),
            ('eight', 'one thread, eight devices', 8, ('--mode', 'one')))
LLAMA = ('llama', 'rocblas')
LLAMA_TESTS = '{llama}/usr/libexec/x86_64-linux-gnu/llama.cpp-tests'
COMPLETION = ('{llama}/usr/bin/llama-completion', '-p', 'abc def', '-n', '40', '-ngl', '99', '--temp', '0', '-s', '1', '-no-cnv')
OPERATORS = 'ADD,MUL,RMS_NORM,NORM,SOFT_MAX,CPY,CUMSUM,ARGSORT'  # the others take minutes each


def llama(name, about, command, **more):
    return Program(name, about, '6.4.3', LLAMA, command, more.pop('read', whole), folder='backends', **more)


PROGRAMS = [
    rccl_tests('5.4.3', 'UnitTests', 'one', sample=('--gtest_filter=All*.OutOfPlace:SendRecv.*',)),
    rccl_tests('5.4.3', 'UnitTests', 'several', sample=('--gtest_filter=All*.InPlace:SendRecv.*',)),
    rccl_tests('7.2.4', 'rccl-UnitTests', 'one', environment=RCCL_7, arguments=NOT_TIMES, sample=('--gtest_filter=AllGather.InPlaceGraph',)),
    rccl_tests('7.2.4', 'rccl-UnitTests', 'several', environment=RCCL_7, arguments=NOT_TIMES, sample=('--gtest_filter=SendRecv.SinglePairs',)),
    Program('collectives_5.4.3', 'collectives, eager and captured, RCCL 5.4.3', '5.7.1', ('rccl',), ('{made}/collectives',), lines,
            environment={'HSACPU_DEVICES': '2'}, right=()),
    Program('collectives_7.2.4', 'collectives, eager and captured, RCCL 7.2.4', '7.2.4', ('rccl',), ('{made}/collectives',), lines,
            environment={'HSACPU_DEVICES': '2', **RCCL_7, 'HSACPU_ISA': GFX90A}, right=()),
    *(Program(f'training_{name}', f'training steps with all-reduces, RCCL 7.2.4, {about}', '7.2.4', ('rccl',),
              ('{made}/training', '--devices', str(devices), *words), lines,
              environment={'HSACPU_DEVICES': str(devices), **RCCL_7, 'HSACPU_ISA': GFX90A}, right=(), sample=('--steps', '6'))
      for name, about, devices, words in TRAINING),
    *(Program(f'rocblas_6.4_{isa[:6]}', f'rocBLAS, eager and captured, {isa[:6]}', '6.4.3', ('rocblas',), ('{made}/gemm',), lines, right=(),
              environment={'HSACPU_ISA': isa}) for isa in (GFX906, GFX908, GFX90A)),
    Program('hipblaslt_7.2.4', 'hipBLASLt, eager and captured, gfx90a', '7.2.4', ('hipblaslt',), ('{made}/matmul_lt', '--algorithms', '4'), lines,
            right=(), environment={'HSACPU_ISA': GFX90A}, sample=('--algorithms', '1')),
    *(Program(f'primitives_{runtime}_{isa[:6]}', f'hipCUB, eager and captured, {isa[:6]}', runtime, ('hipcub',), ('{made}/primitives',), lines,
              right=(), environment={'HSACPU_ISA': isa}, served='54 of 72')
      for runtime in ('5.7.1', '6.4.3', '7.2.4') for isa in (GFX906, GFX90A)),
    llama('llama_f32', 'llama.cpp, completion, f32', (*COMPLETION, '-m', '{made}/f32.gguf'), right=()),
    llama('llama_f16', 'llama.cpp, completion, f16', (*COMPLETION, '-m', '{made}/f16.gguf'), right=()),
    llama('llama_two', 'llama.cpp, completion, two devices', (*COMPLETION, '-m', '{made}/f16.gguf', '-sm', 'layer'), right=(),
          environment={'HSACPU_DEVICES': '2'}),
    llama('llama_server', 'llama.cpp, server, two slots',
          ('{llama}/usr/bin/llama-server', '-m', '{made}/f16.gguf', '-ngl', '99', '-np', '2', '--no-webui'), read=lines, right=(), serves=True),
    llama('llama_threads', "llama.cpp's test of threads", (f'{LLAMA_TESTS}/test-thread-safety', '-m', '{made}/f16.gguf', '-ngl', '99',
                                                           '-p', 'abc', '-n', '16', '-np', '2', '-t', '1'), read=lambda text: {'all': 'OK'}),
    llama('ggml', "ggml's operator tests", (f'{LLAMA_TESTS}/test-backend-ops', 'test', '-b', 'ROCm0', '-o', OPERATORS), read=operator_tests,
          right=('OK', 'not supported'), sample=('-o', 'RMS_NORM')),
]


class Place:
    """Where the packages of a program and what is made for it are."""

    def __init__(self, program, build):
        self.program, self.build = program, build
        self.root = Root(TOP / 'build-amd' / program.runtime, build)
        self.packages = {name: TOP / 'build-amd' / name / program.runtime for name in program.packages}
        self.made = build / 'tests/real' / program.runtime
        self.folders = {**{name: str(folder) for name, folder in self.packages.items()}, 'made': str(self.made)}

    def there(self):
        if self.source().suffix == '.hip' and not shutil.which('hipcc'):
            return False
        return all((folder / 'complete').exists() for folder in [self.root.folder, *self.packages.values()])

    def version(self):
        return (self.packages[self.program.packages[0]] / 'complete').read_text().split(',')[0]

    def command(self, sample):
        words = [*self.program.command, *(self.program.sample if sample else ())]
        words = [word.format(**self.folders) for word in words]
        folders = [folder / LIBRARIES / below for folder in self.packages.values() for below in ('', 'llama')]
        return self.root.command(words[0], words[1:], folders=folders)

    def source(self):
        """Of the command's program, where it is one of this folder."""
        name = pathlib.Path(self.program.command[0]).name
        return next((file for file in (HERE / f'{name}.hip', HERE / f'{name}.cpp') if file.exists()), HERE)

    def make(self):
        """The model or the program of this folder that the command names, and the links ggml finds its backends by."""
        self.made.mkdir(parents=True, exist_ok=True)
        for word in self.program.command:
            path = pathlib.Path(word.format(**self.folders))
            if path.suffix == '.gguf' and not path.exists():
                subprocess.run([sys.executable, HERE / 'tiny_model.py', path, path.stem], check=True)
            elif path.parent == self.made and path.suffix == '':
                folder = self.packages[self.program.packages[0]]
                headers = ['-isystem', folder / 'usr/include']
                if self.source().suffix == '.hip':
                    self.root.compile_hip(self.source(), path, HIP_DEVICES, headers)
                    continue
                library = next((folder / LIBRARIES).glob(f'lib{self.program.packages[0]}.so.?'))
                self.root.compile(self.source(), path, ['-O1', *headers, library])
        if self.program.folder:
            folder = self.made / self.program.folder
            folder.mkdir(exist_ok=True)
            for name in ('libggml-hip.so', 'libggml-cpu-x64.so'):
                link = folder / name
                link.unlink(missing_ok=True)
                link.symlink_to(self.packages['llama'] / LIBRARIES / 'ggml/backends0' / name)


def run(place, sample, environment, log):
    program = place.program
    environment = {**os.environ, **program.environment, **environment}
    where = place.made / program.folder
    with open(log, 'w+', encoding='utf-8', errors='replace') as errors:
        if program.serves:
            code, text = server.completions(place.command(sample), environment, where, errors)
            return Outcome(code, program.read(text))
        try:
            done = subprocess.run(place.command(sample), env=environment, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=errors, timeout=program.limit_s, check=False)
        except subprocess.TimeoutExpired:
            return Outcome('did not end', {})
    return Outcome(done.returncode, program.read(done.stdout.decode(errors='replace')))


def captures(reports):
    """How many captures the processes made, and how many of them the library served."""
    made = served = 0
    for path in reports:
        try:
            graphs = json.loads(path.read_text())['graphs']
        except ValueError:  # its process ended while it was written
            continue
        served += graphs['captures_avoided']
        made += graphs['captures_avoided'] + graphs['captures_recorded'] + graphs['captures_refused']
    return made, served


def passed(program, outcome):
    return sum(not program.right or result.startswith(program.right) for result in outcome.tests.values())


def findings(log):
    """Of checked mode, forked processes' too, which end without its exit code."""
    return log.read_text(errors='replace').count('hsa on the cpu: checked: ')


def try_program(place, sample, logs):
    """Its row of the table, and what is wrong."""
    program = place.program
    place.make()
    library = place.build / 'hooks/libgraphpool.so'
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        native = run(place, sample, {}, logs / f'{program.name}.native.txt')
        native_s = time.monotonic() - began
        under = run(place, sample, {'LD_PRELOAD': str(library), 'GRAPHPOOL_REPORT': f'{folder}/%p.json'},
                    logs / f'{program.name}.library.txt')
        library_s = time.monotonic() - began - native_s
        made, served = captures(sorted(pathlib.Path(folder).glob('*.json')))
    wrong = []
    if native.code != 0 or passed(program, native) != len(native.tests):
        wrong.append(f'natively exit code {native.code}, {passed(program, native)} of {len(native.tests)} right')
    differing = sorted(str(test) for test in {**native.tests, **under.tests} if native.tests.get(test) != under.tests.get(test))
    if under != native:
        wrong.append(f'under the library exit code {under.code}; differ: {", ".join(differing[:5]) or "none"}')
    if program.served not in ('', f'{served} of {made}'):
        wrong.append(f'{served} of {made} captures were served, not {program.served}')
    if sum(found := [findings(logs / f'{program.name}.{way}.txt') for way in ('native', 'library')]):
        wrong.append(f'checked mode finds {found[0]} times natively, {found[1]} under the library: {logs}')
    row = [program.about, place.version(), program.runtime, f'{passed(program, native)} of {len(native.tests)}',
           'yes' if under == native else 'no', '-' if program.forks else f'{served} of {made}', f'{native_s:.0f} s, {library_s:.0f} s']
    return row, [f'{program.name}: {text}' for text in wrong]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--sample', action='store_true')
    parser.add_argument('--checked', action='store_true')
    parser.add_argument('build', type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    chosen = [program for program in PROGRAMS if not options.names or any(fnmatch.fnmatch(program.name, name) for name in options.names)]
    if options.checked:
        os.environ['HSACPU_CHECKED'] = '1'
    if not chosen:
        sys.exit(f'no such program; there are: {", ".join(program.name for program in PROGRAMS)}')
    places = [Place(program, options.build) for program in chosen]
    if not any(place.there() for place in places):
        print('none of these programs is there: scripts/amd brings them')
        return 77
    logs = options.build / 'tests/real/logs'
    logs.mkdir(parents=True, exist_ok=True)
    print('| program | version | runtime | tests passed | same under the library | captures served | natively, under it |')
    print('| --- | --- | --- | --- | --- | --- | --- |')
    wrong = []
    for place in places:
        if not place.there():
            print(f'{place.program.name}: not there, skipped', file=sys.stderr)
            continue
        row, found = try_program(place, options.sample, logs)
        print('| ' + ' | '.join(row) + ' |', flush=True)
        wrong += found
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
