"""bring_amd_test.py SCRIPT: scripts/amd in a tree of its own, with an apt that answers what a case says: what cannot be brought is
skipped with a line that says why, and the next is looked at; nothing is left that looks complete."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop()).resolve()
APT_GET = '#!/bin/sh\nfor word; do case $word in update) exit $UPDATE;; download) exit $DOWNLOAD;; esac; done\n'
APT_CACHE = ('#!/bin/sh\nfor word; do case $word in libamdhip64-6) echo "$word | $NEWEST | mirror";; '
             'libamdhip64-5) echo "$word | 5.7.1-6 | mirror";; esac; done\n')


class Bring(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.top = pathlib.Path(kept.name)
        for folder in ('scripts', 'tools'):
            (self.top / folder).mkdir()
        shutil.copy(SCRIPT, self.top / 'scripts/amd')
        for name, text in {'apt-get': APT_GET, 'apt-cache': APT_CACHE}.items():
            (self.top / 'tools' / name).write_text(text)
            (self.top / 'tools' / name).chmod(0o755)

    def bring(self, *versions, update=0, download=0, newest='6.4.3-2'):
        environment = {**os.environ, 'PATH': f'{self.top}/tools:{os.environ["PATH"]}', 'UPDATE': str(update),
                       'DOWNLOAD': str(download), 'NEWEST': newest}
        done = subprocess.run([self.top / 'scripts/amd', *versions], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list((self.top / 'build-amd').glob('*/complete')), [])
        return done.stdout.splitlines()

    def test_no_mirror(self):
        self.assertEqual(self.bring('6.4.3', '5.7.1', update=100),
                         ["6.4.3: no mirror of Debian's forky answers; skipped", "5.7.1: no mirror of Debian's trixie answers; skipped"])

    def test_suite_that_moved_on(self):
        self.assertEqual(self.bring('6.4.3', newest='6.5.0-1'), ["6.4.3: Debian's forky has 'libamdhip64-6 6.5.0-1' now; skipped"])

    def test_mirror_that_breaks_off(self):
        self.assertEqual(self.bring('6.4.3', '5.7.1', download=100),
                         [f'{version}: its packages could not be downloaded; skipped' for version in ('6.4.3', '5.7.1')])

    def test_what_is_there_is_kept(self):
        (self.top / 'build-amd/6.4.3').mkdir(parents=True)
        (self.top / 'build-amd/6.4.3/complete').write_text('2 packages\n')
        done = subprocess.run([self.top / 'scripts/amd', '6.4.3'], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, '6.4.3: 2 packages, in build-amd/6.4.3\n'))


if __name__ == '__main__':
    unittest.main()
