"""The page of graphpool report --html in a real browser, Debian's Chromium without a screen: on a desk and on a phone, light and
dark, nothing is wider than the screen. With a folder as argument the pictures stay there. Without a Chromium it is skipped."""
import pathlib
import re
import shutil
import subprocess
import sys

import page_test
import support

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
KEEP = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
# What the page says of itself once it is laid out; the page itself has no script.
ASK = ('<script>document.title = "width " + document.documentElement.scrollWidth + " of " + window.innerWidth + " back " + '
       'getComputedStyle(document.body).backgroundColor</script></body>')
LEAST_WIDTH = 500  # Chromium makes no smaller window; a phone's page is asked for in a frame


class Pictures(page_test.PageTest):
    def browse(self, page, *words):
        return subprocess.run([CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars',
                               '--user-data-dir={}'.format(self.folder / 'profile'), *words, 'file://{}'.format(page)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=200, check=True).stdout.decode()

    def framed(self, name, width):
        """A page that shows the other one in a frame of this width."""
        return self.file('{}-frame.html'.format(name), '<body style="margin:0"><iframe src="{}" style="border:0;width:{}px;'
                         'height:2600px"></iframe>'.format(name + '.html', width))

    def test_pictures(self):
        text, _ = self.page(self.with_course())
        (self.folder / 'asking.html').write_text(text.replace('</body>', ASK))
        for name, width, dark in (('desk', 1200, False), ('phone', 390, False), ('phone-dark', 390, True)):
            flags = ['--blink-settings=preferredColorScheme={}'.format(0 if dark else 1),
                     '--window-size={},2600'.format(max(width, LEAST_WIDTH))]
            said = self.browse(self.folder / 'asking.html', *flags, '--dump-dom')
            wide, screen, red = map(int, re.search(r'<title>width (\d+) of (\d+) back rgb\((\d+),', said).groups())
            self.assertLessEqual(wide, screen, name)
            self.assertEqual(dark, red < 128, name)
            picture = (KEEP or self.folder) / (name + '.png')
            shutil.copy(str(self.folder / 'page.html'), str(self.folder / (name + '.html')))
            self.browse(self.framed(name, width), *flags, '--screenshot={}'.format(picture))
            self.assertGreater(picture.stat().st_size, 10000)


if __name__ == '__main__':
    if not CHROMIUM:
        print('Chromium is not installed')
        sys.exit(77)
    support.main()
