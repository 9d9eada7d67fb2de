"""graphpool run: what it refuses, what it keeps of the program, what it tells."""
import os
import pathlib
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time

import support

TRANSFORMER = support.PROGRAMS / 'transformer'
NO_DEVICE = 'import ctypes\nassert ctypes.CDLL("libamdhip64.so.5").hipGetDeviceCount(ctypes.byref(ctypes.c_int())) == 0\n'


def static_program(path, code):
    """An ELF file without an interpreter that ends with this code."""
    text = b'\xb8\x3c\0\0\0\xbf' + struct.pack('<I', code) + b'\x0f\x05'  # mov eax, 60; mov edi, code; syscall
    base, head = 0x400000, 64 + 56
    elf = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack('<HHIQQQIHHHHHH', 2, 62, 1, base + head, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    elf += struct.pack('<IIQQQQQQ', 1, 5, 0, base, base, head + len(text), head + len(text), 0x1000)
    path.write_bytes(elf + text)
    path.chmod(0o755)
    return path


class Refused(support.CommandTest):
    """Nothing is started, and the reason is told."""

    def run_refused(self, code, *words, says, **variables):
        mark = self.folder / 'started'
        errors = self.refused(code, 'run', *words, 'touch', mark, says=says, **variables)
        self.assertFalse(mark.exists())
        return errors

    def test_a_bad_policy(self):
        self.file('p.toml', '[graph]\nslots = 0\n')
        self.run_refused(125, '--policy', 'p.toml', says=['p.toml:2:9: graph.slots: bad value "0"', 'nothing was started'])
        self.run_refused(125, '--set', 'graph.slots=0', says='graphpool: --set graph.slots: graph.slots: bad value "0"')
        self.run_refused(125, says='environment GRAPHPOOL_POOL_LIMIT: pool.limit: bad value "4X"', GRAPHPOOL_POOL_LIMIT='4X')
        self.run_refused(2, '--set', 'graph.slots=', says='--set graph.slots=: which value? Allowed: an integer from 1 to 64')
        self.run_refused(125, says='cannot read /nowhere.toml: no such file', GRAPHPOOL_POLICY='/nowhere.toml')
        self.run_refused(125, '--policy', 'nowhere.toml', says='graphpool: nowhere.toml: no such file: nothing was started')
        for word in ('graph.slto', 'slots', 'GRAPHPOOL_GRAPH_SLOTS'):
            self.run_refused(2, '--set', word + '=1', says='--set {}: unknown key, did you mean graph.slots?'.format(word))

    def test_a_library_that_cannot_be_preloaded(self):
        self.run_refused(125, says=['/nowhere.so is not there; GRAPHPOOL_LIBRARY names it; unset it, or name libgraphpool.so',
                                    ': nothing was started'], GRAPHPOOL_LIBRARY='/nowhere.so')
        self.run_refused(125, says='is a folder: GRAPHPOOL_LIBRARY must name libgraphpool.so itself', GRAPHPOOL_LIBRARY=self.folder)
        self.run_refused(125, says='is no library for 64-bit programs', GRAPHPOOL_LIBRARY=self.file('text.so', 'text'))
        self.run_refused(125, says='other.so is another library than libgraphpool.so: it names no version of graphpool; unset GRAPHPOOL_LIBRARY',
                         GRAPHPOOL_LIBRARY=static_program(self.folder / 'other.so', 0))
        self.run_refused(125, says='a blank or a colon', GRAPHPOOL_LIBRARY=self.file('a b/lib.so', 'text'))
        self.run_refused(125, says='libgraphpool.so is not there: run scripts/build first',
                         GRAPHPOOL_BUILD=self.build_without_library())

    def build_without_library(self):
        (self.folder / 'b').mkdir()
        (self.folder / 'b' / 'command').symlink_to(support.BUILD / 'command')
        return self.folder / 'b'

    def test_a_report_folder_that_cannot_be_written(self):
        self.file('plain', '')
        self.run_refused(125, '--report', 'plain/x', says='--report plain/x: Not a directory')
        self.run_refused(125, '--report', 'plain', says='--report plain: it is a file; a folder is needed')
        self.run_refused(125, '--report', '/proc/nowhere', says='--report /proc/nowhere: ')

    def test_no_program(self):
        self.refused(2, 'run', says='which program?')
        self.refused(2, 'run', '--', says='which program?')
        self.refused(127, 'run', 'no-such-program', says='no-such-program: not found in PATH')
        self.refused(127, 'run', './no-such-program', says='./no-such-program: no such file')
        self.refused(127, 'run', '', says='the name of the program is empty')
        self.refused(126, 'run', './', says='./: it is a folder')
        self.refused(126, 'run', self.file('plain', ''), says='plain: not executable')
        script = self.file('script', '#!/nope/python -u\n')
        script.chmod(0o755)
        errors = self.refused(126, 'run', './script', says='graphpool: ./script: its interpreter /nope/python is not there\n')
        self.assertEqual(1, errors.count('\n'), errors)
        script.write_text('#!/bin/sh\r\n')
        self.refused(126, 'run', './script', says='its interpreter /bin/sh\\r is not there')
        broken = self.file('broken', '\x7fELF')
        broken.chmod(0o755)
        self.assertEqual(126, self.graphpool('run', broken)[0])


class Kept(support.CommandTest):
    """What the program sees and how it ends is as without."""

    def test_exit_code_and_streams(self):
        code, output, errors = self.graphpool('run', '--quiet', 'sh', '-c', 'echo out; echo err >&2; exit 7')
        self.assertEqual((7, 'out\n', 'err\n'), (code, output, errors))
        self.assertEqual(0, self.graphpool('run', 'true')[0])

    def test_a_script_without_a_first_line(self):
        script = self.file('script', 'exit 5\n')
        script.chmod(0o755)
        self.assertEqual(5, self.graphpool('run', '--quiet', script)[0])

    def test_the_signal_that_ends_it(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT):
            code, _, errors = self.graphpool('run', 'sh', '-c', 'kill -{} $$'.format(int(number)))
            self.assertEqual(-number, code, errors)
            self.assertIn('before signal {} ended the program'.format(int(number)), errors)

    def test_its_environment(self):
        output = self.graphpool('run', '--quiet', '--set', 'graph.slots=2', 'env', GRAPHPOOL_LIBRARY='unset')[1]
        found = dict(line.split('=', 1) for line in output.splitlines() if '=' in line)
        self.assertEqual('2', found['GRAPHPOOL_GRAPH_SLOTS'])
        self.assertTrue(found['LD_PRELOAD'].startswith(str(support.BUILD / 'hooks/libgraphpool.so')))
        self.assertNotIn('GRAPHPOOL_BUILD', found)

    def test_signals_that_are_sent_reach_it_and_it_is_told(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            shutil.rmtree(str(self.folder / 'graphpool-reports'), ignore_errors=True)
            process = self.start('run', '--', *self.python('time.sleep(100)'))
            self.assertEqual('began\n', process.stdout.readline())
            self.wait_for_a_report()
            process.send_signal(number)
            code, _, errors = self.finish(process)
            self.assertEqual(-number, code, errors)
            self.assertRegex(errors, r'graphpool: python\S*\[\d+\].*: signal {} ended it before it could write more'.format(int(number)))
            self.assertIn('graphpool: next: graphpool explain', errors)

    def test_a_program_that_ends_itself_on_a_signal(self):
        process = self.start('run', '--', *self.python(
            'signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); print("ready", flush=True); time.sleep(100)'))
        self.assertEqual(['began\n', 'ready\n'], [process.stdout.readline() for _ in range(2)])
        process.send_signal(signal.SIGTERM)
        code, _, errors = self.finish(process)
        self.assertEqual(9, code)
        self.assertIn('allocations served', errors)
        self.assertNotIn('ended before', errors)

    def test_a_report_is_there_soon(self):
        program = self.python('time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)')
        errors = self.graphpool('run', '--', *program, GRAPHPOOL_REPORT_EVERY='')[2]
        self.assertEqual([False], [report['ended'] for report in self.reports()])
        self.assertNotIn('no report', errors)

    def test_the_exit_code_where_the_reports_are_gone(self):
        program = ' '.join(map(str, self.python('')))
        code, _, errors = self.graphpool('run', '--report', 'gone', '--', 'sh', '-c', program + '; rm -rf gone; exit 9')
        self.assertEqual(9, code, errors)
        self.assertIn('graphpool: the reports cannot be read: {}: No such file or directory\n'.format(self.folder / 'gone'), errors)
        self.assertIn('graphpool: the program was not affected; its reports are lost\n', errors)
        self.assertNotIn('Traceback', errors)

    def through_shell(self, text, *words, command=support.COMMAND, **variables):
        """The command, as "$@" of a shell's text."""
        return self.finish(self.start('-c', text, 'sh', sys.executable, command, *words, command='/bin/sh', **variables))

    def test_it_runs_whatever_becomes_of_the_messages(self):
        words = 'run', '--', 'sh', '-c', 'touch mark; exit 9'
        for where in ('2>&-', '2>/dev/full', '>&-', '>&- 2>&-', '>/dev/full 2>/dev/full'):
            code, _, errors = self.through_shell('"$@" ' + where, *words)
            self.assertEqual((9, False), (code, 'Traceback' in errors), errors)
            (self.folder / 'mark').unlink()

    def test_it_runs_in_a_folder_that_is_gone(self):
        gone = 'mkdir gone; cd gone; rmdir "$PWD"; "$@"'
        code, _, errors = self.through_shell(gone, 'run', '--', *self.python('sys.exit(9)'), TMPDIR=self.folder)
        self.assertEqual(9, code, errors)
        self.assertIn('graphpool: warning: no report can be written to graphpool-reports (No such file or directory); they go to '
                      '{}/graphpool-reports-{}\n'.format(self.folder, os.getuid()), errors)
        self.assertEqual(1, len(self.reports('graphpool-reports-{}'.format(os.getuid()))))
        code, _, errors = self.through_shell(gone, 'run', '--report', 'r', 'true')
        self.assertEqual((125, False), (code, 'Traceback' in errors), errors)

    def test_lines_to_copy_are_quoted(self):
        errors = self.graphpool('run', '--report', 'a b', '--trace', '--', *self.python(''))[2]
        self.assertRegex(errors, r"graphpool: next: graphpool explain 'a b/graphpool-\S+\.json'\n")
        self.assertRegex(errors, r"graphpool: trace: 'a b/graphpool-\S+\.trace\.json' \(")

    def wait_for_a_report(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if any(path.stat().st_size for path in (self.folder / 'graphpool-reports').glob('*.json')):
                return
            time.sleep(0.05)
        self.fail('no report is written while the program runs')


class Told(support.CommandTest):
    def test_the_start_and_the_table(self):
        code, output, errors = self.graphpool('run', '--', TRANSFORMER, '--steps', '6')
        self.assertEqual(0, code, errors)
        self.assertEqual(subprocess.check_output([str(TRANSFORMER), '--steps', '6'], env=support.environment(),
                                                 universal_newlines=True), output)
        version = (support.TOP / 'VERSION').read_text().strip()
        lines = errors.splitlines()
        self.assertEqual('graphpool: {}, default policy; reports in graphpool-reports'.format(version), lines[0])
        self.assertRegex(errors, r'\n +1 +embed \.\. \S+ +101 +6 +\d+\.\d %  ')
        for text in ('  captures ', '  memory   ', '  saved    about '):
            self.assertIn('\n' + text, errors)
        self.assertRegex(errors, r' of host time: an estimate \(')
        report = re.search(r'next: graphpool explain (\S+)', errors).group(1)
        self.assertEqual(0, self.graphpool('explain', report)[0])

    def test_the_policy_in_effect(self):
        self.file('p.toml', '[[buffer]]\nname = "a"\n[[buffer]]\n name = "b"\n')
        errors = self.graphpool('run', '--policy=p.toml', '--set', 'graph.slots=2', 'true')[2]
        self.assertIn('policy: graph.slots = 2, 2 buffer rules;', errors)
        errors = self.graphpool('run', '--set', 'compile.tools=a*, b*', '--set', 'graph.slots=2', 'true')[2]
        self.assertRegex(errors, r'policy: .*compile\.tools = "a\*, b\*"[,;]')

    def test_one_report_a_process_never_overwritten(self):
        program = ' '.join(map(str, self.python('')))
        for _ in range(2):
            self.assertEqual(0, self.graphpool('run', '--', 'sh', '-c', '{0}; {0}; true'.format(program))[0])
        found = self.reports()
        self.assertEqual(4, len(found))
        self.assertEqual(4, len({report['process'] for report in found}))
        names = [path.name for path in (self.folder / 'graphpool-reports').iterdir()]
        self.assertTrue(all(re.match(r'graphpool-.*-r0-p\d+\.json$', name) for name in names), names)

    def test_several_processes_are_rows(self):
        program = ' '.join(map(str, self.python('')))
        errors = self.graphpool('run', '--', 'sh', '-c', ' '.join([program + ';'] * 4 + ['true']))[2]
        self.assertIn('graphpool: 4 processes\n', errors)
        self.assertIn('  host ', errors)
        self.assertIn('kept at most', errors)

    def test_very_many_processes_are_a_row_a_program(self):
        program = ' '.join(map(str, self.python('')))
        errors = self.graphpool('run', '--', 'sh', '-c', ' '.join([program + ' &'] * 21 + ['wait']))[2]
        lines = errors[errors.index('graphpool: 21 processes\n'):].splitlines()
        self.assertRegex(lines[2], r'^  \S+ +0 +python\S* +21 +\d')
        self.assertEqual('graphpool: next: graphpool report graphpool-reports', lines[3])

    def test_a_process_that_is_left_behind(self):
        program = ' '.join(map(str, self.python('')))
        errors = self.graphpool('run', '--', 'sh', '-c', 'sleep 3 >/dev/null 2>&1 & exit 0')[2]
        self.assertIn('graphpool: no report is there yet: 1 process still runs, which it left behind; later: graphpool '
                      'report graphpool-reports\n', errors)
        errors = self.graphpool('run', '--', 'sh', '-c', program + '; sleep 3 >/dev/null 2>&1 & exit 0')[2]
        self.assertNotIn('no HIP call', errors)

    def test_one_exec_launched_often(self):
        errors = self.graphpool('run', '--', support.PROGRAMS / 'pooled')[2]
        self.assertIn(' 12 of the same exec, 4 of 2 new execs\n', errors)

    def test_ranks(self):
        quiet = self.graphpool('run', '--', *self.python(''), OMPI_COMM_WORLD_RANK='3')[2]
        self.assertEqual('', quiet)
        told = self.graphpool('run', '--', *self.python(''), OMPI_COMM_WORLD_RANK='0')[2]
        self.assertIn('graphpool[rank 0]: next: graphpool report graphpool-reports\n', told)
        self.assertEqual({'0', '3'}, {report['rank'] for report in self.reports()})

    def test_a_rank_that_is_no_number(self):
        self.assertIn('graphpool[rank abc]: next: ', self.graphpool('run', '--', *self.python(''), OMPI_COMM_WORLD_RANK='abc')[2])

    def test_report_folder(self):
        errors = self.graphpool('run', '--report', 'r.json', 'true')[2]
        self.assertIn('graphpool: warning: --report r.json names a folder, not a file: each process writes a report', errors)
        code, _, errors = self.graphpool('run', '--report', 'a/b%p', '--', *self.python(''))
        self.assertEqual(0, code)
        self.assertIn('graphpool: warning: --report a/b%p names a folder, and no mark in it is replaced', errors)
        self.assertEqual(1, len(self.reports('a/b%p')))

    def test_another_report_folder_where_that_cannot_be(self):
        self.file('graphpool-reports', '')
        there = self.folder / 't' / 'graphpool-reports-{}'.format(os.getuid())
        there.parent.mkdir()

        def errors_of_run():
            code, _, errors = self.graphpool('run', '--', *self.python(''), TMPDIR=there.parent)
            self.assertEqual(0, code, errors)
            return errors

        said = 'graphpool: warning: no report can be written to {} (it is a file; a folder is needed); they go to {}'.format(
            self.folder / 'graphpool-reports', there)
        self.assertIn(said + '\n', errors_of_run())
        self.assertEqual(1, len(self.reports(there)))
        there.rename(self.folder / 'elsewhere')
        there.symlink_to(self.folder / 'elsewhere')
        self.assertIn('; they go to {}/graphpool-reports-'.format(there.parent), errors_of_run())
        self.assertEqual(1, len(self.reports('elsewhere')))  # a link may be somebody else's

    def test_another_version_of_the_library(self):
        library = self.folder / 'libgraphpool.so'
        data = (support.BUILD / 'hooks/libgraphpool.so').read_bytes()
        version = (support.TOP / 'VERSION').read_bytes().strip()
        library.write_bytes(data.replace(b'graphpool version ' + version, b'graphpool version ' + b'9' * len(version)))
        errors = self.graphpool('run', '--', 'true', GRAPHPOOL_LIBRARY=library)[2]
        self.assertRegex(errors, r'graphpool: warning: \S+/libgraphpool.so has version 9+, and this command has version ')

    def test_where_no_hip_call_was_seen(self):
        errors = self.graphpool('run', '--', 'true')[2]
        self.assertIn('graphpool: no HIP call was seen.\n', errors)
        self.assertIn('RTLD_DEEPBIND', errors)
        self.assertNotIn('exit code', errors)

    def test_where_it_is_switched_off(self):
        errors = self.graphpool('run', '--set', 'enabled=false', '--', *self.python(''))[2]
        self.assertIn('switched off by enabled = false (--set enabled)', errors)
        self.assertNotIn('reports in', errors)

    def test_static_programs(self):
        program = static_program(self.folder / 'static', 7)
        code, _, errors = self.graphpool('run', './static')
        self.assertEqual(7, code)
        self.assertIn('warning: ./static runs as without the library: it is linked statically; link it dynamically\n', errors)
        self.assertIn('graphpool: no report: static could not be preloaded\n', errors)
        self.assertNotIn('reports in', errors)
        self.assertTrue(program.exists())

    def test_programs_with_more_rights(self):
        copy = self.folder / 'more'
        shutil.copy(shutil.which('true'), str(copy))
        copy.chmod(0o755 | stat.S_ISUID)
        errors = self.graphpool('run', './more')[2]
        self.assertIn('it runs with more rights than who starts it', errors)

    def test_warnings_of_the_policy_are_told_once(self):
        program = self.python('')
        for name, value, said in (('GRAPHPOOL_LOG_LEVEL', 'verbose', 'log.level: bad value "verbose"'),
                                  ('GRAPHPOOL_GRAPH_STRATEGI', 'patch', 'unknown variable, ignored')):
            errors = self.graphpool('run', '--', *program, **{name: value})[2]
            self.assertIn('graphpool: warning: environment {}: {}'.format(name, said), errors)
            self.assertEqual(1, errors.count('warning:'), errors)
            self.assertEqual('', self.graphpool('run', '--', *program, RANK=3, **{name: value})[2])
        for level, words in (('loud', program), ('loud', ['true']), ('off', program)):
            self.file('p.toml', '[log]\nlevel = "{}"\n[report]\nevery = "x"\n'.format(level))
            errors = self.graphpool('run', '--policy', 'p.toml', '--', *words)[2]
            self.assertEqual(1, errors.count('report.every: bad value "x"'), errors)

    def test_variables_of_reports_have_no_effect(self):
        errors = self.graphpool('run', '--', *self.python(''), GRAPHPOOL_REPORT='mine.json')[2]
        self.assertIn('graphpool: warning: GRAPHPOOL_REPORT has no effect under run: --report DIR names the folder', errors)
        self.assertFalse((self.folder / 'mine.json').exists())
        errors = self.graphpool('run', '--set', 'report.file=mine.json', 'true')[2]
        self.assertIn('graphpool: warning: --set report.file has no effect under run', errors)
        errors = self.graphpool('run', '--set', 'log.level=verbose', '--', *self.python(''))[2]
        self.assertIn('graphpool: warning: --set log.level: log.level: bad value "verbose"', errors)
        self.assertEqual(1, errors.count('warning:'), errors)

    def test_lines_of_the_log_name_their_process_and_rank(self):
        program = self.python('print(os.getpid())')
        torchrun = {'SLURM_PROCID': '0', 'RANK': '5', 'TORCHELASTIC_RUN_ID': 'none'}
        for rank, text in (({}, ''), ({'SLURM_PROCID': '3'}, ' rank 3'), (torchrun, ' rank 5')):
            _, output, errors = self.graphpool('run', '--', *program, GRAPHPOOL_LOG_LEVEL='info', **rank)
            self.assertEqual(1, errors.count('graphpool[{}{}]: info: version '.format(output.split()[1], text)), errors)
        errors = self.graphpool('run', '--policy', 'nosuch.toml', '--', *program, **torchrun)[2]
        self.assertIn('graphpool[rank 5]: nosuch.toml: ', errors)

    def test_levels_of_the_log(self):
        said = {}
        for level in ('info', 'debug', 'trace'):
            errors = self.graphpool('run', '--quiet', '--', TRANSFORMER, '--steps', '4', GRAPHPOOL_LOG_LEVEL=level)[2]
            said[level] = [line.split(': ', 1)[1] for line in errors.splitlines()]
        info = said['info']
        self.assertEqual(4, len(info), info)
        self.assertRegex(info[0], r'^info: version \S+ is active; its report will be in ')
        self.assertRegex(info[1], r'^info: graph 1 is new: embed \.\. adamw, 101 nodes; served by a new exec$')
        self.assertEqual('info: graph 1 is served by the same exec, before by a new exec', info[2])
        self.assertRegex(info[3], r'^info: captures 3 of 4 served, instantiates 3 of 4; 4 launches; ')

        def count(level, start):
            return sum(line.startswith(start) for line in said[level])

        self.assertRegex('\n'.join(said['debug']), r'debug: graph 1: addresses without an exec are served by a new exec; a new exec would '
                         r'cost \d+\.\d us \(built in\)\n')
        self.assertEqual([4, 4, 4], [count(level, 'info: ') for level in said])
        self.assertEqual([0, 4, 4], [count(level, 'debug: capture, ') for level in said])
        self.assertEqual([(1, 3)] * 2, [tuple(count(level, 'debug: capture, 101 operations, graph 1: ' + fate)
                                              for fate in ('recorded', 'served')) for level in ('debug', 'trace')])
        self.assertEqual([0, 0, 8], [count(level, 'trace: ') for level in said])
        self.assertEqual([4, 4], [count('trace', 'trace: {}, graph 1: '.format(call)) for call in ('instantiate', 'launch')])

    def test_the_library_alone(self):
        """Preloaded by hand it says each thing once, at its start."""
        library = support.BUILD / 'hooks/libgraphpool.so'
        preload = ':'.join(filter(None, [os.environ.get('COMMAND_BEFORE'), str(library)]))

        def errors_of(**variables):
            program, script = self.python('')
            return self.finish(self.start(script, command=program, LD_PRELOAD=preload, GRAPHPOOL_BUILD='unset', **variables))[2]

        self.assertEqual('', errors_of())
        self.assertRegex(errors_of(GRAPHPOOL_LOG_LEVEL='info', GRAPHPOOL_REPORT='alone.json'),
                         r' will be in alone\.json \(when the process ends; GRAPHPOOL_REPORT_EVERY=2s: also before\)\n')
        errors = errors_of(GRAPHPOOL_REPORT='/nowhere/r.json')
        self.assertEqual(1, errors.count('/nowhere/r.json'), errors)
        self.assertRegex(errors_of(GRAPHPOOL_LOG_LEVEL='info'), r': info: version \S+ is active; no report is written\n')
        for key, variable in (('report.file', 'GRAPHPOOL_REPORT'), ('report.trace', 'GRAPHPOOL_TRACE')):
            errors = errors_of(**{variable: 'r_%q.json'})
            self.assertEqual(1, errors.count('warning: {}: %q is no mark, and stays in the name; there are %p %r %h %u %%\n'.format(key)))
            self.assertTrue((self.folder / 'r_%q.json').exists())
            errors = errors_of(**{variable: '/nowhere/r.json'})
            self.assertEqual(1, errors.count(' can be written to /nowhere/r.json: there is no such folder\n'), errors)

    def test_where_nothing_was_captured(self):
        errors = self.graphpool('run', '--', sys.executable, self.file('none.py', NO_DEVICE))[2]
        self.assertIn('  no graph was captured or instantiated in 1 HIP calls', errors)
        self.assertEqual(self.reports()[0]['devices'] == [], "  no GPU is named by this machine's drivers\n" in errors, errors)
        for text in ('  memory ', '  compile ', '  saved '):
            self.assertNotIn(text, errors)

    def test_verify(self):
        code, _, errors = self.graphpool('run', '--verify', '--', TRANSFORMER, '--steps', '5')
        self.assertEqual(0, code, errors)
        self.assertIn(', default policy, up to 3 captures of each graph and 3 launches by each way are verified; reports in ', errors)
        self.assertRegex(errors, r'\n  verified \d+ captures and \d+ launches; no difference\n')
        self.assertRegex(errors, r'warning: verify: graph 1 cannot be run twice: .*; only its captures are compared\n')
        verified = self.reports()[0]['recordings'][0]['captures_verified']
        self.assertGreater(verified, 0)
        output = self.graphpool('explain', 'graphpool-reports')[1]
        self.assertIn('  {} captures were compared by verification, and so not served.\n'.format(verified), output)
        self.assertNotIn('dropped', output)

    def test_damaged_reports_are_named(self):
        text = 'import glob; path = os.environ["GRAPHPOOL_REPORT_FILE"].split("%h")[0] + "x.json"; open(path, "w").write("{")'
        errors = self.graphpool('run', '--', *self.python(text))[2]
        self.assertIn('x.json: not a report (not JSON)', errors)
        errors = self.graphpool('run', '--', 'sh', '-c', 'touch "${GRAPHPOOL_REPORT_FILE%%-%h*}-x.json"')[2]
        self.assertIn('x.json: empty: no report was written to it\ngraphpool: the program was not affected; its report is lost\n', errors)


if __name__ == '__main__':
    support.main()
