"""property.py: random programs, natively and under the library: every byte they can see must be the same.

property.py [--first N] [--programs N] [--batch N] [--seconds S] [--ways all|some] [--jitter] [--cases DIR] [--keep DIR]
            CONFIG
property.py --replay FILE [--verbose] CONFIG
property.py --amd VERSION [--checked] ... CONFIG
property.py --amd VERSION --pack FOLDER CONFIG

CONFIG (JSON) says where interpreter, runtime and libraries are; the build writes it: build/tests/property/config.json.

Programs come in batches, one process each; a batch has one setting of the CPU runtime (both runs) and one policy (the
library's run), chosen at random by the batch's number. A batch that differs is reduced to a program, or to a few that
need each other, then to as few steps and settings as still differ, and printed as a file that --replay runs again.

--ways all: each program runs under the library with each way of serving bindings forced (new_exec, patch, one_shot, stage)
and with staging left to its cost, in the place of a random one; and the run fails when some way of serving a launch, ring
size or position of a mismatch was never reached, or no graph changed over to staging (for long runs).

--amd VERSION: on AMD's own runtime that scripts/amd has brought (on_amd.py). What AMD's runtime ends natively is told apart.
--checked: in its checked mode; what kernels and copies touch that they may not is a failure, natively and under the library.
--pack: copies what a version needs into a folder that runs elsewhere: python3 FOLDER/tests/property/property.py ... FOLDER/config.json
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'support'))
import runs  # noqa: E402
from on_amd import FINDINGS_EXIT, OnAmd  # noqa: E402

SEEDED = '999'  # the code of injected failures
FOUND = 'found '  # how a line begins that tells of an access, of no program in particular
UNWRITTEN = ' -842150451'  # as the CPU runtime fills memory that nobody has written
REDUCTION_RUNS = 250
NATIVE_RUNS = 40  # of a program that differs on AMD's runtime, for it may differ from itself


class Settings:
    """What a batch runs with: the runtime's switches, the policy, and what programs may rely on."""

    def __init__(self, runtime=None, library=None, features=None):
        self.runtime, self.library, self.features = runtime or {}, library or {}, features or []

    def lines(self):
        return ([f'# runtime {key}={value}' for key, value in self.runtime.items()]
                + [f'# library {key}={value}' for key, value in self.library.items()]
                + ([f'# features {",".join(self.features)}'] if self.features else []))

    @classmethod
    def read(cls, text):
        settings = cls({}, {}, [])
        for line in text.splitlines():
            words = line.split(None, 2)
            if len(words) == 3 and words[0] == '#' and words[1] in ('runtime', 'library'):
                key, _, value = words[2].partition('=')
                getattr(settings, words[1])[key] = value
            elif len(words) == 3 and words[:2] == ['#', 'features']:
                settings.features = words[2].split(',')
        return settings


def random_settings(number, rely_on_order=False):
    pick = random.Random(number)
    often = lambda value, *others: value if pick.random() < 0.5 else pick.choice(others)  # noqa: E731
    runtime, library, features = {}, {}, []
    runtime['CPUHIP_DEVICES'] = often('1', '2')
    runtime['CPUHIP_REUSE'] = pick.choice(['late', 'never', 'once', 'random'])
    if pick.random() < 0.5:
        runtime['CPUHIP_EXEC_ORDER'] = 'overlap'
    elif rely_on_order:
        features.append('exec_serial')
    if pick.random() < 0.3:
        runtime['CPUHIP_EXEC_PARAMS'] = 'node'
        features.append('params_at_node')
    if pick.random() < 0.3:
        runtime['CPUHIP_VERSION'] = pick.choice(['50731921', '60343483', '70051831'])
    if pick.random() < 0.3:
        quirks = [quirk for quirk in ('external_waits', 'partial_update', 'fitting_calls', 'swallowed_errors',
                                      'host_copy_at_patch', 'stuck_invalidation') if pick.random() < 0.5]
        runtime['CPUHIP_QUIRKS'] = ','.join(quirks) or 'none'
        if 'stuck_invalidation' in quirks:
            features.append('stuck')
        if 'swallowed_errors' in quirks:
            features.append('swallowed')
        if 'host_copy_at_patch' in quirks:
            features += ['params_at_node', 'copies_at_patch']  # by the update, whatever still runs
    if pick.random() < 0.2:
        runtime['CPUHIP_VMM'] = '0'
    switch_more(runtime, features, random.Random(f'runtime {number}'))
    if random.Random(f'jitter {number}').random() < 0.06:
        runtime['CPUHIP_JITTER'] = '100'

    def key(name, chance, *values):
        if pick.random() < chance:
            library['GRAPHPOOL_' + name] = str(pick.choice(values))

    key('POOL_ENABLED', 0.1, 'false')
    key('POOL_BACKING', 0.5, 'classic', 'vmm')
    key('POOL_CHUNK', 0.5, '2MiB', '4MiB')
    key('POOL_LIMIT', 0.3, '4KiB', '64KiB', '1MiB')
    key('POOL_LARGE', 0.2, '8KiB', '128KiB')
    key('POOL_FREE', 0.4, 'deferred')
    key('POOL_PREALLOCATE', 0.1, '4MiB')
    key('GRAPH_COMPARE', 0.08, 'false')
    key('GRAPH_REUSE', 0.08, 'false')
    key('GRAPH_STRATEGY', 0.6, 'new_exec', 'patch', 'patch', 'one_shot')
    key('GRAPH_VARIANTS', 0.4, 1, 2, 4)
    key('GRAPH_PATCH_BUDGET', 0.3, 1, 5)
    key('GRAPH_RECORDINGS', 0.3, 1, 4, 16)
    key('GRAPH_VERIFY', 0.2, 'first:2', 'first:1000', 'every:2')
    key('GRAPH_UNKNOWN', 0.1, 'trust')
    if pick.random() < 0.35:
        size = pick.choice(['>=0', '1KiB..2KiB', '<=1KiB'])
        library['GRAPHPOOL_BUFFERS'] = f'[{{size = "{size}", stage = "always"}}]'
        if random.Random(f'stage {number}').random() < 0.4:
            leave_open(library, runtime, size)
        key('GRAPH_SLOTS', 0.7, *RING_SIZES)
        key('GRAPH_RING_TIMEOUT', 1, '200ms', '200ms', '1s')
        features += STAGED_FEATURES
    if random.Random(f'limit {number}').random() < 0.3:  # one exec at a time, or about two
        library['GRAPHPOOL_GRAPH_EXEC_MEMORY'] = random.Random(f'execs {number}').choice(['1', '2500KiB'])
    if random.Random(f'idle {number}').random() < 0.3:
        library['GRAPHPOOL_POOL_IDLE'] = '1ms'
    if library.get('GRAPHPOOL_POOL_FREE') != 'deferred' and pick.random() < 0.5:
        features.append('free_waits')
    if pick.random() < 0.1:
        features += ['inject', 'no_mem_info']
    if pick.random() < 0.5:
        features.append('frees_captured')
    if random.Random(f'weighed {number}').random() < 0.25:
        features.append('weighed')
    use_more(runtime, library, features, random.Random(f'classes {number}'))
    if runtime['CPUHIP_REUSE'] != 'never':
        features.append('handles_return')
    return Settings(runtime, library, sorted(set(features)))


def use_more(runtime, library, features, pick):
    """What some programs do that others leave."""
    if pick.random() < 0.5:
        features.append('inner_frees')
    if runtime['CPUHIP_REUSE'] == 'never' and pick.random() < 0.7:
        runtime['CPUHIP_GONE'] = 'refused'
        features.append('gone')
    # Of memory that is a part of a chunk no handle can be had.
    if library.get('GRAPHPOOL_POOL_BACKING') != 'vmm' and pick.random() < 0.5:
        features.append('exports')


def switch_more(runtime, features, pick):
    """Switches that a native program sees nothing of."""
    if pick.random() < 0.15:
        runtime['CPUHIP_QUEUES'] = pick.choice(['1', '2', '4'])
    quirks = [quirk for quirk in ('lazy_peers', 'current_device_stubs') if pick.random() < 0.1]
    if random.Random(f'limits {pick.random()}').random() < 0.2:
        quirks.append('shared_limits')
    if runtime.get('CPUHIP_VERSION', '').startswith('603') and pick.random() < 0.7:
        quirks.append('kept_arguments')
        features.append('keeps_arguments')
    if quirks:
        before = runtime.get('CPUHIP_QUIRKS', 'external_waits,partial_update,fitting_calls')
        runtime['CPUHIP_QUIRKS'] = ','.join([before, *quirks])


def leave_open(library, runtime, size):
    """Staging is left to its cost. Execs and patches are made dear and few are kept, for programs are short."""
    rest = ', {stage = "always"}' if 'KiB' in size else ''
    library['GRAPHPOOL_BUFFERS'] = f'[{{size = "{size}", stage = "auto"}}{rest}]'
    library['GRAPHPOOL_GRAPH_VARIANTS'] = '1'
    library.pop('GRAPHPOOL_GRAPH_STRATEGY', None)
    runtime['CPUHIP_COST'] = 'hipGraphInstantiate:200000,hipGraphExecKernelNodeSetParams:100000'


RING_SIZES = (1, 2, 3, 8)
STAGED = '[{size = ">=0", stage = "always"}]'
# A rule says that the graph writes the whole buffer, and slots are memory the program does not have.
STAGED_FEATURES = ['whole_buffers', 'no_mem_info']


def every_way(settings, number):
    """The settings of a batch with each way forced. They share the program, so its features are those of a staged one."""
    features = sorted(set(settings.features + STAGED_FEATURES))
    for way in ('new_exec', 'patch', 'one_shot', 'stage', 'chosen'):
        runtime = dict(settings.runtime)
        library = {key: value for key, value in settings.library.items() if key != 'GRAPHPOOL_BUFFERS'}
        if way == 'stage':
            library['GRAPHPOOL_BUFFERS'] = STAGED
            library['GRAPHPOOL_GRAPH_SLOTS'] = str(random.Random(f'slots {number}').choice(RING_SIZES))
            library.setdefault('GRAPHPOOL_GRAPH_RING_TIMEOUT', '200ms')
        elif way == 'chosen':
            leave_open(library, runtime, random.Random(f'open {number}').choice(['>=0', '1KiB..2KiB', '<=1KiB']))
        else:
            library['GRAPHPOOL_GRAPH_STRATEGY'] = way
        yield Settings(runtime, library, features)


class Runner:
    def __init__(self, config, library=None, amd=None):
        self.config, self.library, self.amd = config, library or config['library'], amd
        self.ways = collections.Counter()

    def settings(self, number, rely_on_order):
        settings = random_settings(number, rely_on_order)
        return self.amd.settings(settings, number) if self.amd else settings

    def command(self, arguments):
        return self.amd.command(arguments) if self.amd else [self.config['interpret'], *arguments]

    def run(self, settings, arguments, under_library, timeout=120):
        """Returns the transcript as text; the last line says how the process ended if it did not end well."""
        with tempfile.TemporaryDirectory(prefix='property-') as folder:
            environment = dict(runs.clean_environment(), **settings.runtime)
            features = settings.features + (['armed'] if under_library and 'inject' in settings.features else [])
            report = pathlib.Path(folder) / 'report.json'
            if under_library:
                environment.update(settings.library, GRAPHPOOL_REPORT=str(report),
                                   LD_PRELOAD=':'.join([*self.config['before'], self.library]))
                environment.setdefault('GRAPHPOOL_LOG_LEVEL', 'off')
            output = pathlib.Path(folder) / 'transcript'
            errors = pathlib.Path(folder) / 'errors'
            command = self.command([*arguments, '--features', ','.join(features)])
            with output.open('wb') as out, errors.open('wb') as err:
                try:
                    code = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                          timeout=timeout).returncode
                except subprocess.TimeoutExpired:
                    code = 'a time-out'
            text = output.read_text(errors='replace')
            if code == FINDINGS_EXIT and self.amd:
                text += ''.join(f'{FOUND}{line}\n' for line in self.amd.findings(errors.read_text(errors='replace')))
            elif code != 0:
                text += f'\nended with {code}: ' + ' | '.join(errors.read_text(errors='replace').splitlines()[-6:]) + '\n'
            elif under_library and report.exists():
                self.count(json.loads(report.read_text()), settings)
            return text

    def count(self, report, settings):
        graphs = report.get('graphs', {})
        for name in ('captures_recorded', 'captures_avoided', 'captures_refused', 'instantiates', 'instantiates_avoided',
                     'updates', 'updates_avoided', 'launches', 'execs_given_back', 'execs_made_again'):
            self.ways[name] += graphs.get(name, 0)
        for way, count in graphs.get('launches_by_way', {}).items():
            self.ways[f'way {way}'] += count
            if way == 'stage':
                self.ways['ring ' + settings.library.get('GRAPHPOOL_GRAPH_SLOTS', '1')] += count
        for recording in report.get('recordings', []):
            self.ways['changed to or from staging'] += recording.get('staging_changes', 0)
            self.ways['staged without copies'] += recording.get('launches_without_copies', 0)
        for position, count in graphs.get('mismatches', {}).items():
            self.ways[f'mismatch {position}'] += count
        for entry in graphs.get('refusals', []):
            self.ways['refused: ' + entry['reason']] += entry['count']
        for entry in graphs.get('materialisations', []):
            self.ways['made real: ' + entry['reason']] += entry['count']

    def count_steps(self, transcript):
        """What the programs did, natively."""
        for steps in programs_of(transcript).values():
            updates = collections.Counter()
            for line in steps:
                step, _, result = line.partition(' => ')
                kind, _, rest = step.partition(' ')
                for name, pattern in STEPS.items():
                    self.ways[name] += re.search(pattern, line) is not None
                exec_slot = rest.partition(' ')[0]
                if kind in ('instantiate', 'exec_destroy'):
                    updates[exec_slot] = 0
                elif kind in ('exec_update', 'exec_set') and result.split(' ')[0] == '0':
                    updates[exec_slot] += 1
                    self.ways['loops of updates'] += updates[exec_slot] == 8

    def pair(self, settings, arguments, timeout=300):
        return self.run(settings, arguments, False, timeout), self.run(settings, arguments, True, timeout)


# What programs must have done in a long run, each at least once: by a line of the transcript.
STEPS = {
    'frees inside memory': r'^release_inside .* => 0',
    'memory made in a capture': r'^allocate .* => 0.* in capture',
    'memory freed in a capture': r'^release .* => 0.* in capture',
    'memory exported': r'^export_memory .* => 0',
    'reads by hidden addresses': r'^work .* what=16 .* => 0',
    'uses of what was destroyed': r'^use_gone .* => [1-9]',
    'modules unloaded': r'^module_unload .* => 0',
    'kernels of modules that go': r'^work .* form=(2[5-9]|[3-9]\d)\d .* => 0',
    'threads that ended in a capture': r'^end_thread .* => captured',
    'attributes set': r'^attribute .* => 0',
    'streams made for a moment': r'^momentary .* => 0 .*after=',
}


def programs_of(transcript):
    found = {}
    for part in transcript.split('program ')[1:]:
        lines = part.splitlines()
        found[int(lines[0])] = lines[1:]
    return found


def first_difference(native, library, inject):
    """(index, native line, library line) of two programs' lines, or None."""
    for index in range(max(len(native), len(library))):
        one = native[index] if index < len(native) else '(nothing)'
        two = library[index] if index < len(library) else '(nothing)'
        if one == two:
            continue
        if inject and SEEDED in re.split('[ /:=!.-]', two.partition('=>')[2]):
            return None  # the program itself was told of the failure: from here on it is another program
        return index, one, two
    return None


def compare(native, library, inject):
    """The first program that differs, or None: (seed, (index, native line, library line))."""
    if native == library:
        return None
    one, two = programs_of(native), programs_of(library)
    for seed in one:
        difference = first_difference(one[seed], two.get(seed, []), inject)
        if difference is not None:
            return seed, difference
    return None


def as_file(programs):
    return ''.join(f'program {seed}\n' + ''.join(step.partition(' =>')[0] + '\n' for step in steps)
                   for seed, steps in programs)


class Reduction:
    """Makes a failing list of programs smaller while it still fails."""

    def __init__(self, runner, settings, folder):
        self.runner, self.settings, self.file, self.runs = runner, settings, pathlib.Path(folder) / 'case', 0

    def difference(self, programs, settings=None, timeout=20):
        self.runs += 1
        settings = settings or self.settings
        self.file.write_text(as_file(programs))
        native, library = self.runner.pair(settings, ['--replay', str(self.file)], timeout)
        found = None if 'ended with' in native else compare(native, library, 'inject' in settings.features)
        # Not a well-defined program any more: it reads what nobody wrote, or the order of its work is not decided.
        if found is None or any(UNWRITTEN in line for line in found[1][1:]):
            return None
        return found if self.runner.run(settings, ['--replay', str(self.file)], False, timeout) == native else None

    def fails(self, programs, settings=None):
        return self.runs < REDUCTION_RUNS and self.difference(programs, settings) is not None

    def reduce(self, programs):
        for count in (1, 2, 4, 8, 16, len(programs)):
            if self.fails(programs[-count:]):
                programs = programs[-count:]
                break
        else:
            return None
        steps = [(seed, step) for seed, steps in programs for step in steps if step != 'done']

        def grouped(kept):
            groups = {}
            for seed, step in kept:
                groups.setdefault(seed, []).append(step)
            return list(groups.items())

        size = max(1, len(steps) // 2)
        while size >= 1:
            at, changed = 0, False
            while at < len(steps):
                fewer = steps[:at] + steps[at + size:]
                if fewer and self.fails(grouped(fewer)):
                    steps, changed = fewer, True
                else:
                    at += size
            if size == 1 and not changed:
                break
            size = size // 2 if size > 1 or not changed else 1
        for which in ('library', 'runtime'):
            for key in list(getattr(self.settings, which)):
                fewer = Settings(dict(self.settings.runtime), dict(self.settings.library), list(self.settings.features))
                del getattr(fewer, which)[key]
                if self.fails(grouped(steps), fewer):
                    self.settings = fewer
        return grouped(steps)


class ReductionOfAnEnd(Reduction):
    """The same where the native run does not end well."""

    def __init__(self, runner, settings, folder, how):
        super().__init__(runner, settings, folder)
        self.how = how

    def difference(self, programs, settings=None, timeout=8):
        self.runs += 1
        self.file.write_text(as_file(programs))
        native = self.runner.run(settings or self.settings, ['--replay', str(self.file)], False, timeout)
        return native if f'\nended with {self.how}:' in native else None


def report_end(runner, settings, native, keep):
    """Reduces and prints what ends a native run."""
    programs = [(seed, lines) for seed, lines in programs_of(native).items()]
    seed, how = programs[-1][0], re.search(r'\nended with ([^:]*):(.*)', native)
    # The step that ended it is told on stderr only.
    last = how[2].rpartition('|')[2].strip()
    programs[-1] = (seed, [line for line in programs[-1][1] if not line.startswith('ended with')] + [last])
    with tempfile.TemporaryDirectory(prefix='property-') as folder:
        reduced = ReductionOfAnEnd(runner, settings, folder, how[1]).reduce(programs)
    text = '\n'.join([f'# natively ended with {how[1]}', *settings.lines(), as_file(reduced) if reduced else '# not again'])
    print(f'--- program {seed} ends natively ---\n{text}---', flush=True)
    if keep:
        pathlib.Path(keep).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(keep) / f'end_{seed}').write_text(text)


def report_failure(runner, settings, native, library, failure, keep):
    """Reduces and prints a failure; returns the file's text."""
    seed, (_, one, two) = failure
    programs = [(other, [line for line in lines]) for other, lines in programs_of(native).items() if other <= seed]
    with tempfile.TemporaryDirectory(prefix='property-') as folder:
        reduction = Reduction(runner, settings, folder)
        reduced = reduction.reduce(programs)
        if reduced is None:
            text = '\n'.join(['# does not fail when it is run again by itself: it depends on time', *settings.lines(),
                              as_file(programs[-4:])])
        else:
            again = reduction.difference(reduced)
            if again is not None:
                one, two = again[1][1], again[1][2]
            text = '\n'.join([*reduction.settings.lines(), as_file(reduced)])
    text = f'# seen natively  {one}\n# seen with it   {two}\n{text}'
    print(f'--- program {seed} differs ---\n{text}---', flush=True)
    if keep:
        pathlib.Path(keep).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(keep) / f'case_{seed}').write_text(text)
    return text


# How the CPU runtime ends a process whose program uses what the runtime has destroyed: with HIP anything could follow.
UNDEFINED = 'use of destroyed'


def without_meaning(runner, native):
    """Why a native run that did not end well says nothing about the library; None where it is not known."""
    if UNDEFINED in native.splitlines()[-1]:
        return UNDEFINED
    return runner.amd.defect(native) if runner.amd else None


def varies(runner, settings, first, count, failure, native):
    """Whether the program that differs is not the same natively in every run."""
    steps = programs_of(native)[failure[0]]
    again = (runner.run(settings, ['--programs', str(first), str(count)], False) for _ in range(NATIVE_RUNS))
    return any(programs_of(other).get(failure[0]) != steps for other in again)


def cut_behind_lost(native):
    """A native transcript up to the first program whose capture ended badly, and that program's number; None where it is the last.
    AMD's runtimes keep streams of such captures, gone or not: the next program needs a process of its own."""
    parts = re.split(r'(?m)^(?=program \d+$)', native)
    for number, part in enumerate(parts[:-1]):
        if re.search(r'(?m)^end .* => 9\d\d', part):
            return ''.join(parts[:number + 1]), int(part.split()[1])
    return None


def native_runs(runner, settings, first, count, undefined):
    """Runs a batch natively: (first, count, transcript) of it, or of its parts: beside the programs that no runtime has
    a meaning for, whose numbers are added to `undefined`, by the reason, and on AMD's behind captures that ended badly."""
    parts = [(first, count)]
    while parts:
        first, count = parts.pop()
        if count == 0:
            continue
        native = runner.run(settings, ['--programs', str(first), str(count)], False)
        if runner.amd and (cut := cut_behind_lost(native)):
            native, last = cut
            parts.append((last + 1, first + count - last - 1))
            count = last - first + 1
        reason = without_meaning(runner, native) if 'ended with' in native else None
        last = max(programs_of(native), default=first)
        if reason is None:
            yield first, count, native
            if 'ended with' in native and runner.amd:  # the others go on without it
                parts += [(last + 1, first + count - last - 1), (first, last - first)]
            continue
        undefined[reason].append(last)
        parts += [(last + 1, first + count - last - 1), (first, last - first)]


def run_batches(runner, options):
    """Runs batches until the programs are done or time is up; returns (programs run, failures, undefined programs)."""
    started, done, failures, undefined = time.monotonic(), 0, 0, collections.defaultdict(list)
    for batch in range(options.first, options.first + options.programs, options.batch):
        if options.seconds and time.monotonic() - started > options.seconds:
            break
        settings = runner.settings(batch, options.rely_on_order)
        if options.jitter:
            settings.runtime['CPUHIP_JITTER'] = '100'
            if settings.runtime.get('CPUHIP_VERSION', '').startswith('7'):  # execs give their memory back when they end
                settings.features = sorted({*settings.features, 'no_mem_info'})
        count = min(options.batch, options.first + options.programs - batch)
        variations = list(every_way(settings, batch)) if options.ways == 'all' else [settings]
        done += count
        for first, part, native in native_runs(runner, variations[0], batch, count, undefined):
            runner.count_steps(native)
            if 'ended with' in native:
                print(f'programs {first}..{first + part - 1} did not end natively: {native[-600:]}')
                print('\n'.join(settings.lines()))
                failures += 1
                if runner.amd and failures <= options.most:
                    report_end(runner, variations[0], native, options.keep)
                continue
            found = [line for line in native.splitlines() if line.startswith(FOUND)]
            if found:
                print(f'programs {first}..{first + part - 1} natively:', *found, sep='\n  ')
                failures += 1
            for varied in variations:
                library = runner.run(varied, ['--programs', str(first), str(part)], True)
                failure = compare(native, library, 'inject' in settings.features)
                if failure is None:
                    continue
                if runner.amd and varies(runner, varied, first, part, failure, native):
                    undefined['not the same natively in every run'].append(failure[0])
                    continue
                failures += 1
                if failures <= options.most:
                    report_failure(runner, varied, native, library, failure, options.keep)
                else:
                    print(f'--- program {failure[0]} differs: natively {failure[1][1]}, library {failure[1][2]}',
                          flush=True)
        if options.stop and failures:
            break
    return done, failures, undefined


def replay(runner, path, verbose):
    """Whether a file's programs see the same."""
    settings = Settings.read(pathlib.Path(path).read_text())
    if runner.amd:
        settings = runner.amd.replayed(settings)
    native, library = runner.pair(settings, ['--replay', str(path)], 60)
    if verbose:
        print(library)
    if 'ended with' in native:
        print(f'{path}: did not end natively: {native[-300:]}', flush=True)
        return False
    failure = compare(native, library, 'inject' in settings.features)
    if failure is None:
        if verbose:
            print('no difference')
        return True
    print(f'{path}: program {failure[0]}\n  natively {failure[1][1]}\n  library  {failure[1][2]}', flush=True)
    return False


NEEDED = [f'way {way}' for way in ('same', 'new_exec', 'patch', 'stage', 'one_shot')] + [
    f'mismatch {position}' for position in ('first', 'middle', 'last', 'shorter', 'longer')] + [
    f'ring {size}' for size in RING_SIZES] + ['changed to or from staging', 'staged without copies', 'loops of updates',
                                              *STEPS]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('config')
    parser.add_argument('--first', type=int, default=0)
    parser.add_argument('--programs', type=int, default=400)
    parser.add_argument('--batch', type=int, default=25)
    parser.add_argument('--seconds', type=float, default=0)
    parser.add_argument('--ways', choices=('all', 'some'), default='some')
    parser.add_argument('--keep')
    parser.add_argument('--most', type=int, default=5, help='failures to reduce and print')
    parser.add_argument('--stop', action='store_true', help='at the first failure')
    parser.add_argument('--replay')
    parser.add_argument('--rely-on-order', action='store_true',
                        help='launches of one exec are not ordered by programs where the runtime orders them')
    parser.add_argument('--jitter', action='store_true', help='every worker of the CPU runtime waits at random')
    parser.add_argument('--cases', help='a folder of files as --replay takes them, run first')
    parser.add_argument('--amd', metavar='VERSION', help="AMD's own runtime instead of the CPU runtime")
    parser.add_argument('--checked', action='store_true', help='with --amd: accesses are held against live memory')
    parser.add_argument('--pack', metavar='FOLDER', help='with --amd: copies what is needed to run elsewhere')
    parser.add_argument('--verbose', action='store_true')
    options = parser.parse_args()
    config = runs.read_list(options.config)
    try:
        if options.pack:
            OnAmd.pack(config, options.amd, pathlib.Path(options.pack))
            return 0
        runner = Runner(config, amd=OnAmd(config, options.amd, options.checked) if options.amd else None)
    except FileNotFoundError as missing:
        print(f'skipped: {missing}')
        return 77

    if options.replay:
        return 0 if replay(runner, options.replay, options.verbose) else 1

    started = time.monotonic()
    cases = sorted(pathlib.Path(options.cases).iterdir()) if options.cases else []
    differ = [case for case in cases if not replay(runner, case, False)]
    done, failures, undefined = run_batches(runner, options)
    failures += len(differ)
    for reason, programs in undefined.items():
        print(f'programs without a meaning: {len(programs)}, {reason}: {programs}')
    if len(undefined[UNDEFINED]) > 1 + done / 1000:
        failures += 1
        print('so many are a fault of the generator')
    print(f'{done} programs from seed {options.first}, {failures} batches differ, {time.monotonic() - started:.0f} s')
    for name, count in sorted(runner.ways.items()):
        print(f'  {name}: {count}')
    missing = [name for name in NEEDED if runner.ways[name] == 0]
    if missing:
        print('not reached: ' + ', '.join(missing))
    return 1 if failures or (missing and options.ways == 'all') else 0


if __name__ == '__main__':
    sys.exit(main())
