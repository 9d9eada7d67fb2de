"""places.py: where the library, the reader of policies and the version are: in the source tree, or where it was installed.

GRAPHPOOL_LIBRARY names another library. GRAPHPOOL_BUILD: another build folder of the source tree than build/.
"""
import os

PACKAGE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(PACKAGE))  # the source tree, or share/graphpool
VARIABLES = ('GRAPHPOOL_LIBRARY', 'GRAPHPOOL_BUILD')  # for this command; no program gets them
VERSION_MARK = b'graphpool version '


class Missing(Exception):
    """Something of graphpool itself is not there. The text says what and what to do."""


def in_source_tree():
    return os.path.exists(os.path.join(TOP, 'meson.build'))


def build_folder():
    return os.path.abspath(os.environ.get('GRAPHPOOL_BUILD') or os.path.join(TOP, 'build'))


def prefix():
    return os.path.dirname(os.path.dirname(TOP))


def version():
    with open(os.path.join(TOP, 'VERSION')) as file:
        return file.read().strip()


def find(places, what):
    for place in places:
        if os.path.exists(place):
            return place
    advice = 'run scripts/build first' if in_source_tree() else 'is the package complete?'
    raise Missing('{} is not there: {} ({})'.format(what, advice, places[0]))


def library():
    named = os.environ.get('GRAPHPOOL_LIBRARY')
    if named:
        if not os.path.exists(named):
            raise Missing('{} is not there; GRAPHPOOL_LIBRARY names it; unset it, or name libgraphpool.so'.format(named))
        if os.path.isdir(named):
            raise Missing('{} is a folder: GRAPHPOOL_LIBRARY must name libgraphpool.so itself'.format(named))
        return os.path.abspath(named)
    if in_source_tree():
        return find([os.path.join(build_folder(), 'hooks', 'libgraphpool.so')], 'libgraphpool.so')
    folders = ('lib', 'lib/x86_64-linux-gnu', 'lib64')
    return find([os.path.join(prefix(), folder, 'libgraphpool.so') for folder in folders], 'libgraphpool.so')


def timed_library():
    """The library whose entries read the clock. Beside another library that is named, its own is looked for."""
    name = 'libgraphpool-timed.so'
    named = os.environ.get('GRAPHPOOL_LIBRARY')
    if named:
        return find([os.path.join(os.path.dirname(os.path.abspath(named)), name)], name)
    if in_source_tree():
        return find([os.path.join(build_folder(), 'hooks', name)], name)
    return find([os.path.join(prefix(), 'libexec', 'graphpool', name)], name)


def policy_tool():
    if in_source_tree():
        return find([os.path.join(build_folder(), 'command', 'graphpool-policy')], 'graphpool-policy')
    return find([os.path.join(prefix(), 'libexec', 'graphpool', 'graphpool-policy')], 'graphpool-policy')


def selftest():
    """The words that start the self-test: its program, its list of what is run, and of the package the library."""
    if in_source_tree():
        listed = find([os.path.join(build_folder(), 'tests', 'probes', 'selftest.json')], 'selftest.json')
        return [os.path.join(TOP, 'tests', 'probes', 'selftest.py'), listed]
    listed = find([os.path.join(prefix(), 'libexec', 'graphpool', 'selftest', 'selftest.json')], 'selftest.json')
    return [find([os.path.join(TOP, 'selftest', 'selftest.py')], 'selftest.py'), listed, '--library', library()]


def version_of(path):
    """The version that a library says it has; None: it says none."""
    with open(path, 'rb') as file:
        data = file.read()
    at = data.find(VERSION_MARK)
    if at < 0:
        return None
    text = data[at + len(VERSION_MARK):at + len(VERSION_MARK) + 64]
    return text.split(b'\0')[0].decode('ascii', 'replace')
