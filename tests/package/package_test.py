#!/usr/bin/env python3
"""package_test.py SOURCE BUILD RUNTIME PROGRAM: scripts/package, then both packages installed below empty folders, the tarball's moved
once more, and used from there: the command runs a program, checks a policy, explains the report, asks runtimes. The source tree is not needed."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FAILURES = []
PROBES = ('code_is_known', 'set_kernel_reaches_launch')


def expect(what, holds, found=''):
    if not holds:
        FAILURES.append('{}: {}'.format(what, found))


def run(command, folder, **variables):
    environment = {'PATH': '/usr/bin:/bin', 'HOME': str(folder), 'LANG': 'C.UTF-8', **variables}
    return subprocess.run([str(word) for word in command], cwd=str(folder), env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=200)


def use(root, runtime, program, work, version):
    """The command in root/bin, with nothing of the source tree."""
    command = root / 'bin' / 'graphpool'
    said = run([command, '--version'], work)
    expect('--version', said.returncode == 0 and said.stdout.splitlines()[0] == 'graphpool ' + version and
           said.stdout.splitlines()[1].startswith('library {} ({}'.format(version, root)), said)
    done = run([command, 'run', '--', program, '--steps', '5'], work, LD_LIBRARY_PATH=runtime)
    native = run([program, '--steps', '5'], work, LD_LIBRARY_PATH=runtime)
    expect('run', done.returncode == 0 and done.stdout == native.stdout and native.stdout, done)
    expect('table', 'captures 4 of 5 served' in done.stderr, done.stderr)
    expect('explain', run([command, 'explain', 'graphpool-reports'], work).returncode == 0)
    compared = run([command, 'compare', '-n', '1', '--calls', '1', '--', program, '--steps', '5'], work, LD_LIBRARY_PATH=runtime)
    expect('compare', compared.returncode == 0 and 'host time in HIP calls' in compared.stdout, compared)
    example = root / 'share' / 'graphpool' / 'example.toml'
    expect('policy check', run([command, 'policy', 'check', example], work).returncode == 0)
    for page in ('man/man1/graphpool.1', 'bash-completion/completions/graphpool'):
        text = (root / 'share' / page).read_text() if (root / 'share' / page).exists() else ''
        expect(page, '--html' in text.replace('\\', ''), text)
    documents = root / 'share/doc/graphpool'
    for page in ('README', 'RECIPES', 'EFFECTS', 'PERMITS', 'STAGING', 'RESULTS', 'POLICY'):
        expect(page, (documents / '{}.md'.format(page)).is_file(), sorted(documents.iterdir()))
    shutil.rmtree(str(work / 'graphpool-reports'), ignore_errors=True)
    (root / 'libexec/graphpool/graphpool-policy').unlink()
    (root / 'libexec/graphpool/selftest/selftest.json').unlink()
    for words in (['policy', 'check'], ['selftest']):
        gone = run([command, *words], work)
        expect('what is missing is named', gone.returncode == 125 and 'is the package complete?' in gone.stderr, gone)


def test_itself(root, runtime, version, work, *words):
    """The self-test of what is installed, on the runtime in that folder."""
    done = run([root / 'bin' / 'graphpool', 'selftest', '--only', 'probes,programs', '--ask', ','.join(PROBES), *words], work,
               CPUHIP_VERSION=version, **runtime)
    report = work / 'selftest.json'
    told = json.loads(report.read_text()) if report.exists() else {}
    probes = {name: probe['answer'] for name, probe in told.get('probes', {}).items()}
    expect('selftest', done.returncode == 0 and str(told.get('version')) == version and probes == dict.fromkeys(PROBES, 'holds') and
           len(told['programs']) > 10 and set(told['programs'].values()) == {'same'}, done)
    report.unlink()
    return done.stdout.splitlines()[0]


def main(source, build, runtime, program):
    source = pathlib.Path(source)
    version = (source / 'VERSION').read_text().strip()
    with tempfile.TemporaryDirectory(prefix='package-') as folder:
        folder = pathlib.Path(folder)
        (folder / 'work').mkdir()
        made = subprocess.run([str(source / 'scripts/package'), '--build', build, str(folder / 'packages')], check=True,
                              stdout=subprocess.PIPE, universal_newlines=True).stdout.split()
        expect('two packages', [os.path.basename(each) for each in made] == [
            'graphpool-{}-x86_64.tar.gz'.format(version), 'graphpool_{}_amd64.deb'.format(version)], made)
        (folder / 'opt').mkdir()
        subprocess.run(['tar', '-xzf', made[0], '-C', str(folder / 'opt')], check=True)
        moved = folder / 'moved'
        shutil.move(str(next((folder / 'opt').iterdir())), str(moved))
        runtime_7 = os.path.join(runtime, 'so7')
        expect('file', test_itself(moved, {}, '50731921', folder / 'work', '--runtime', runtime).split()[:2] ==
               ['tested', 'libamdhip64.so.5'])
        expect('file', test_itself(moved, {'LD_LIBRARY_PATH': runtime_7}, '70253211', folder / 'work').split()[:2] ==
               ['tested', 'libamdhip64.so.7'])
        none = run([moved / 'bin' / 'graphpool', 'selftest', '--runtime', folder / 'work'], folder / 'work')
        expect('no runtime', none.returncode == 2 and 'no HIP runtime' in none.stderr, none)
        use(moved, runtime, program, folder / 'work', version)

        root = folder / 'root'
        (root / 'var/lib/dpkg/updates').mkdir(parents=True)
        (root / 'var/lib/dpkg/info').mkdir()
        (root / 'var/lib/dpkg/status').write_text('')
        if os.geteuid() == 0:
            subprocess.run(['dpkg', '--root', str(root), '--force-depends', '--log=/dev/null', '--install', made[1]], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            expect('dpkg has it', 'Status: install ok installed' in (root / 'var/lib/dpkg/status').read_text())
        else:
            subprocess.run(['dpkg-deb', '--extract', made[1], str(root)], check=True)
        use(root / 'usr', runtime, program, folder / 'work', version)
        refused = subprocess.run([str(source / 'scripts/package'), '--build', str(folder)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, universal_newlines=True)
        expect('nothing built', refused.returncode == 1 and 'run scripts/build first' in refused.stderr, refused)
    print('\n'.join(FAILURES) or 'both packages work')
    return 1 if FAILURES else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
