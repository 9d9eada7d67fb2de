"""graphpool selftest [--runtime FOLDER] [--only PART,...] [--ask PROBE,...] [--limit SECONDS] [--report FILE] [--policy FILE]

Is what the library relies on true of the HIP runtime and the device of this machine? Needs nothing but what was built
(ninja -C build selftest) or installed, Python 3.6 and hipRTC. Everything runs in processes of their own, with a time limit.

  probes      each fact by itself; what the library relies on and does not hold is REFUTED
  costs       the same of facts that times decide
  programs    the test programs natively and under the library: they must print the same bytes
  benchmarks  short ones, natively and under the library: shown, never judged

It prints a line each, and writes
  --report    one file to go with a bug report (default: selftest.json), without paths, names of users or of the machine
  --policy    where something was refuted or differs, a policy that does without (default: selftest.toml): name it by
              GRAPHPOOL_POLICY, or by graphpool run --policy. The programs are run again with it.

--ask         of the probes only these, by their names.
--runtime     the folder of the HIP runtime, found first. --launcher: words before each command. --probe-limit: seconds
              that a probe may take, --limit a program. --library: another library than the list's.

The programs that are installed name one libamdhip64.so.N, and may meet a runtime with another number. So there the runtime is
looked for (`Runtime` below), and a link with the name that the programs need leads to it.

Exit code: 0 if all holds, 1 if not, 2 where there is no runtime, no device, no program that runs, or something was not built.
"""
import argparse
import contextlib
import datetime
import difflib
import glob
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'support')]
import answers  # noqa: E402
import runs  # noqa: E402

PARTS = ('probes', 'costs', 'programs', 'benchmarks')
# Where a program differs and no probe says why: the first of these with which it does not.
LESS = ['graph.strategy = "new_exec"', 'graph.compare = false\ngraph.reuse = false', 'pool.enabled = false',
        'enabled = false']
TOLD_VARIABLES = ('HIP_', 'ROCR_', 'HSA_', 'AMD_', 'GPU_', 'DEBUG_', 'CPUHIP_', 'CUDAHIP_')


TIMES = ('ns', 'us', 'ms')
RISKY = 'asked only with --risky'  # what the probes say of one that only tests ask


def say(mark, name, text=''):
    print(f'{mark:<9} {name:<32} {text}'.rstrip(), flush=True)


def last_line(done):
    """What a run said last, without the paths in it."""
    lines = done.stderr.strip().splitlines()
    return ' '.join(word.rsplit('/', 1)[-1] for word in lines[-1].split()) if lines else 'without a word'


def figures_of(done):
    """What a benchmark printed, a JSON object a figure; of a program the median of its steps."""
    if done.times_ns:
        return {'step': ('ms', statistics.median(done.times_ns) / 1e6)}
    figures = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith('{')]
    return {figure['figure']: (figure['unit'], figure['value']) for figure in figures
            if figure['unit'] in TIMES}


def numbers(path):
    """The numbers in a name: to sort files and folders by version."""
    return [int(number) for number in re.findall(r'\d+', os.path.basename(path))]


def folders_of_runtimes():
    """Where a program of this machine may find the runtime, most likely first."""
    yield from os.environ.get('LD_LIBRARY_PATH', '').split(':')
    yield from [os.environ.get('ROCM_PATH', ''), os.environ.get('HIP_PATH', ''), '/opt/rocm']
    yield from sorted(glob.glob('/opt/rocm-*'), key=numbers, reverse=True)
    with contextlib.suppress(OSError):
        known = subprocess.run(['/sbin/ldconfig', '-p'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        found = re.findall(r'\tlibamdhip64\.so\.\d+ .*x86-64.* => (\S+)', known.stdout.decode(errors='replace'))
        yield from map(os.path.dirname, sorted(found, key=numbers, reverse=True))


def newest_runtime(folder):
    """The file of that folder with the highest number; None: it has none."""
    files = [path for path in glob.glob(os.path.join(folder, 'libamdhip64.so*'))
             if re.search(r'\.so(\.\d+)?$', path) and os.path.exists(path)]
    return max(files, key=numbers) if files else None


def loaded_runtime(program, environment):
    """The runtime's file that the loader finds for a program; None: it does not tell."""
    with contextlib.suppress(OSError):
        told = subprocess.run([program], env={**runs.clean_environment(), **environment, 'LD_TRACE_LOADED_OBJECTS': '1'},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        found = re.search(r'libamdhip64\.so\S* => (.+) \(0x', told.decode(errors='replace'))
        return found and os.path.abspath(found.group(1))
    return None


def runtime_in(folders):
    """The runtime's file in the first folder that has one, or has one below; None: none has."""
    candidates = (newest_runtime(os.path.join(folder, below)) for folder in folders for below in ('', 'lib', 'lib64') if folder)
    return next(filter(None, candidates), None)


def no_runtime(named):
    return OSError(f'no HIP runtime (libamdhip64.so) in {named or "the usual folders: name its folder by --runtime"}')


def complain(text):
    print(f'graphpool: selftest: {text}', file=sys.stderr)


def did_you_mean(word, allowed):
    near = difflib.get_close_matches(word, allowed, 1)
    return f'; did you mean {near[0]}?' if near else ''


class Runtime:
    """The runtime's file, and how programs that name another number of it find it. Raises OSError where there is no runtime."""

    def __init__(self, named, program, links):
        """named: its folder, or None. program: one of those that are to run. links: an empty folder."""
        self.file = runtime_in([named] if named else folders_of_runtimes())
        if self.file is None:
            raise no_runtime(named)
        folder, name = os.path.split(os.path.abspath(self.file))
        needed = re.search(rb'\0(libamdhip64\.so\.\d+)\0', pathlib.Path(program).read_bytes()).group(1).decode()
        # One that is named comes before what LD_LIBRARY_PATH has, another behind it.
        self.first, self.last = ([folder], []) if named else ([], [folder])
        self.preload = []
        if name != needed:
            os.symlink(os.path.realpath(self.file), os.path.join(links, needed))
            self.first.insert(0, links)
            # Through the link alone it would look for its own libraries beside the link.
            self.preload = [os.path.join(folder, name)]
        # A program of before version 7 expects hipRTC's functions in the runtime.
        compiler = os.path.join(folder, name.replace('amdhip64', 'hiprtc'))
        apart = b'\0hiprtcCreateProgram\0' not in pathlib.Path(self.file).read_bytes() and os.path.exists(compiler)
        self.preload += [compiler] if apart else []


class SelfTest:
    def __init__(self, options):
        self.options = options
        self.listed = runs.read_list(options.list)
        self.listed['library'] = options.library or self.listed['library']
        self.runtime = None  # the one that the loader finds
        self.file = None  # the runtime's, where it is known
        self.preload = []
        self.launcher = shlex.split(options.launcher)
        self.known = {}  # kind and sentence by probe
        # The CPU runtime's own variables are part of the runtime that is tested.
        self.environment = {name: value for name, value in os.environ.items() if name.startswith('CPUHIP_')}
        self.report = {'time': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds'),
                       'machine': platform.platform(), 'probes': {}, 'programs': {}, 'benchmarks': {},
                       'variables': {name: value for name, value in sorted(os.environ.items())
                                     if name.startswith(TOLD_VARIABLES)}}
        self.without = {}  # why -> lines of a policy
        runs.TIMEOUT_S = options.limit

    def search(self, first, last):
        """Where the loader looks for libraries, before and behind what LD_LIBRARY_PATH says."""
        folders = [*first, os.environ.get('LD_LIBRARY_PATH'), *last]
        if any(folders):
            self.environment['LD_LIBRARY_PATH'] = ':'.join(filter(None, folders))

    def run(self, command, policy=None, native=False, weigh=False, times=False):
        environment = dict(self.environment)
        if policy:
            environment['GRAPHPOOL_POLICY'] = str(policy)
        if not weigh:  # what small captures cost would decide which of them are compared: here all are
            environment['GRAPHPOOL_GRAPH_WEIGH'] = 'false'
        preload = [] if native else [self.listed['library']]
        return runs.run([*self.launcher, *command], environment=environment, journal=False,
                        times=times and self.knows_times(command), preload=preload + self.preload)

    def knows_times(self, command):
        return any(command[0] == program['command'][0] for program in self.listed['programs'])

    # --- what is tested ---

    def prepare(self, links):
        needed = [self.listed['library'], self.listed['probes'], self.listed['relied'],
                  *(each['command'][0] for part in ('programs', 'benchmarks') for each in self.listed[part])]
        for path in (self.options.report, self.options.policy):
            if not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
                raise OSError(f'{path} cannot be written here: name another place by --report and --policy')
        gone = [path for path in needed if not os.path.exists(path)]
        if gone:
            advice = 'is the package complete?' if self.listed['installed'] else 'run ninja -C build selftest first'
            raise OSError(f'{gone[0]} is not there: {advice}')
        if self.listed['installed']:
            self.runtime = Runtime(self.options.runtime, self.listed['programs'][0]['command'][0], links)
            self.preload = self.runtime.preload
            self.search(self.runtime.first, self.runtime.last)
            self.file = self.runtime.file
        else:
            self.file = self.file_in_source_tree(self.listed['programs'][0]['command'][0])
        if self.file:
            say('tested', os.path.basename(self.file), os.path.realpath(self.file))
            self.report['file'] = os.path.basename(os.path.realpath(self.file))

    def file_in_source_tree(self, program):
        """The runtime's file that the loader finds, by --runtime in that folder; None where a launcher decides."""
        named = self.options.runtime and runtime_in([self.options.runtime])
        if self.options.runtime and not named:
            raise no_runtime(self.options.runtime)
        folder = named and os.path.dirname(named)
        self.search([folder], [])
        found = None if self.launcher else loaded_runtime(program, self.environment)
        if folder and not self.launcher and (not found or os.path.dirname(found) != folder):
            raise OSError(f'--runtime {self.options.runtime}: the programs take {found or "none"} instead of {named}')
        return found

    # --- probes ---

    def part_of(self, probe):
        return 'costs' if self.known[probe][0] == 'measured' else 'probes'

    def ask(self):
        environment = {name: '' for name in os.environ if name.startswith('GRAPHPOOL_')}
        environment['LD_PRELOAD'] = ''
        environment.update(self.environment)
        named = ['--runtime', self.runtime.file] if self.runtime else []
        wanted = [name for name in self.known if self.part_of(name) in self.options.only and (self.options.ask is None or name in self.options.ask)]
        # Without an id all would be asked.
        return answers.ask(self.listed['probes'], [*named, '--limit', str(self.options.probe_limit), *(wanted or ['code_is_known'])],
                           launcher=self.launcher, environment=environment, runtime=self.file), wanted

    def probes(self):
        self.known = answers.known(self.listed['probes'])
        for name in self.options.ask or []:
            if name not in self.known:
                near = did_you_mean(name, self.known) or '; graphpool selftest names all that it asks'
                raise OSError(f'--ask: no probe {name}{near}')
            part = self.part_of(name)
            if part not in self.options.only:
                raise OSError(f'--ask: {name} belongs to the part {part}, which --only leaves out')
        (found, version, device), wanted = self.ask()
        self.report.update({'version': version, 'device': device})
        say('runtime', str(version), device)
        relied = answers.relied(self.listed['relied'], version)
        for name in wanted:
            answer, (how, otherwise) = found[name], relied[name]
            sentence, seen = self.known[name][1], f' ({answer.value})' if answer.value else ''
            if answer.answer == 'fails' and how == 'relied':
                say('REFUTED', name, f'{sentence} Not so here{seen}. The library relies on it.')
                self.without[f'{name}: {sentence} Not so{seen}.'] = otherwise
            elif answer.answer == 'fails':
                say('not so', name, f'{sentence}{seen} The library does not rely on it.')
            elif answer.answer == 'unknown':
                why = 'Not asked: it may harm more than its process' if answer.value == RISKY else f'Cannot be told{seen}'
                say('unknown', name, f'{sentence} {why}.')
            else:
                say('holds', name, f'{sentence}{seen}')
            self.report['probes'][name] = {'answer': answer.answer, 'seen': answer.value, 'relied_on': how == 'relied'}

    # --- programs ---

    def compare(self, program, policy=None):
        """None: the same bytes; else what is wrong. The native run is made once."""
        if 'native' not in program:
            first, second = (self.run(program['command'], native=True) for _ in range(2))
            steady = first.code == 0 and (first.code, first.stdout) == (second.code, second.stdout)
            program['native'] = first if steady else None
            program['why_not'] = None if steady else (
                f'ends natively with code {first.code or second.code}: {last_line(first.code and first or second)}'
                if first.code or second.code
                else 'prints other bytes from run to run, natively')
        if program['native'] is None:
            return None
        done = self.run(program['command'], policy)
        if done.code != program['native'].code:
            return f'ends with code {done.code}: {last_line(done)}'
        return None if done.stdout == program['native'].stdout else 'prints other bytes under the library'

    def programs(self):
        for program in self.listed['programs']:
            wrong = self.compare(program)
            if program['why_not']:
                say('unknown', program['name'], f'{program["why_not"]}: not compared')
            elif wrong:
                say('DIFFERS', program['name'], wrong)
                self.find_less(program, wrong)
            else:
                say('same', program['name'], 'natively and under the library')
            self.report['programs'][program['name']] = wrong or program['why_not'] or 'same'

    def find_less(self, program, wrong):
        """With what a probe refuted switched off it may be the same; else with less and less of the library."""
        if self.without and self.compare(program, self.write_policy()) is None:
            return
        for lines in LESS:
            self.without[f'{program["name"]}: {wrong}.'] = lines.splitlines()
            if self.compare(program, self.write_policy()) is None:
                return

    def again_with_policy(self):
        wrong = {program['name']: self.compare(program, self.options.policy) for program in self.listed['programs']}
        for name, what in wrong.items():
            if what:
                say('DIFFERS', name, f'with {self.options.policy} too: {what}')
        self.report['programs_with_policy'] = {name: what or 'same' for name, what in wrong.items()}
        if not any(wrong.values()):
            say('same', 'programs', f'all that were compared, with {self.options.policy}')

    # --- benchmarks ---

    def benchmarks(self):
        for benchmark in self.listed['benchmarks']:
            native, library = (self.run(benchmark['command'], native=native, weigh=True, times=True)
                               for native in (True, False))
            if native.code != 0 or library.code != 0:
                say('unknown', benchmark['name'], f'ends with code {native.code} natively, {library.code} under the library')
                continue
            before, after = figures_of(native), figures_of(library)
            for name, (unit, value) in before.items():
                say('measured', benchmark['name'], f'{name}: {value:.3f} {unit} natively, {after[name][1]:.3f}')
                self.report['benchmarks'][f'{benchmark["name"]}: {name}'] = {
                    'unit': unit, 'native': value, 'library': after[name][1]}

    def verdict(self):
        """The last line: whether all holds."""
        asked, programs = self.report['probes'].values(), self.report['programs'].values()
        parts = [f'{sum(each["answer"] != "unknown" for each in asked)} of {len(asked)} probes answered'] if asked else []
        parts += [f'{sum(what == "same" for what in programs)} of {len(programs)} programs the same'] if programs else []
        wrong = f'{len(self.without)} things do not hold' if len(self.without) > 1 else 'one thing does not hold'
        return ', '.join([*parts, wrong if self.without else 'nothing that the library relies on fails'])

    # --- what is written ---

    def write_policy(self):
        why = ''.join(textwrap.fill(text, 118, initial_indent='# ', subsequent_indent='#   ') + '\n' for text in self.without)
        lines = sorted({line for lines in self.without.values() for line in lines})
        path = pathlib.Path(self.options.policy)
        path.write_text(f'# Written by graphpool selftest for version {self.report["version"]} on '
                        f'{self.report["device"]}.\n{why}' + ''.join(line + '\n' for line in lines))
        return path.resolve()

    def write_report(self):
        self.report['policy'] = sorted({line for lines in self.without.values() for line in lines})
        pathlib.Path(self.options.report).write_text(json.dumps(self.report, indent=1) + '\n')


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, not how all is used."""

    def error(self, message):
        self.exit(2, f'graphpool: selftest: {message}\nTry: graphpool selftest --help\n')


def parse(arguments):
    parser = Parser(usage=__doc__)
    parser.add_argument('list', help=argparse.SUPPRESS)
    parser.add_argument('--runtime')
    parser.add_argument('--library')
    parser.add_argument('--launcher', default='')
    parser.add_argument('--only', type=lambda text: text.split(','), default=list(PARTS))
    parser.add_argument('--ask', type=lambda text: text.split(','))
    parser.add_argument('--limit', type=int, default=120)
    parser.add_argument('--probe-limit', type=int, default=20)
    parser.add_argument('--report', default='selftest.json')
    parser.add_argument('--policy', default='selftest.toml')
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        names = [name for action in parser._actions for name in action.option_strings]
        parser.error(f'unknown option {unknown[0]}{did_you_mean(unknown[0].partition("=")[0], names)}')
    for part in options.only:
        if part not in PARTS:
            parser.error(f'--only: no part {part}{did_you_mean(part, PARTS) or "; there are " + ", ".join(PARTS)}')
    if options.runtime:
        options.runtime = os.path.abspath(options.runtime)
    return options


def run(options, links):
    test = SelfTest(options)
    try:
        test.prepare(links)
        test.probes()
    except (OSError, subprocess.CalledProcessError) as why:
        complain(why)
        return 2
    if 'programs' in options.only:
        test.programs()
    if test.without:
        test.write_policy()
        if 'programs' in options.only:
            test.again_with_policy()
    if 'benchmarks' in options.only:
        test.benchmarks()
    test.write_report()
    if test.without:
        say('policy', options.policy, 'does without what does not hold:')
        print(textwrap.indent('\n'.join(test.report['policy']), ' ' * 10))
    say('report', options.report)
    if 'programs' in options.only and all(program['why_not'] for program in test.listed['programs']):
        complain('no program could be compared: are they linked to this runtime?')
        return 2
    print(test.verdict())
    return 1 if test.without else 0


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix='graphpool-') as links:
        return run(options, links)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
