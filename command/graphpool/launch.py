"""launch.py: starting a program and ending as it does.

The program is this process's child, in its process group. Signals that somebody sends to this process are handed on; those that a
terminal sends reach the program by themselves. Meanwhile this process does nothing but wait.
"""
import errno
import os
import re
import resource
import shutil
import signal
import stat
import struct

HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
BY_TERMINAL = 0x80  # SI_KERNEL: the terminal sent it to the whole group
CANNOT_RUN, NOT_FOUND = 126, 127


class CannotStart(Exception):
    """The program cannot be started. `code` is what a shell ends with then."""

    def __init__(self, text, code):
        Exception.__init__(self, text)
        self.code = code


def find_file(program):
    """The program's file, found as a shell finds it."""
    if not program:
        raise CannotStart('the name of the program is empty', NOT_FOUND)
    if os.sep not in program:
        path = shutil.which(program)
        if path is None:
            raise CannotStart('{}: not found in PATH'.format(program), NOT_FOUND)
        return path
    if not os.path.exists(program):
        raise CannotStart('{}: no such file'.format(program), NOT_FOUND)
    if os.path.isdir(program):
        raise CannotStart('{}: it is a folder'.format(program), CANNOT_RUN)
    if not os.access(program, os.X_OK):
        raise CannotStart('{}: not executable'.format(program), CANNOT_RUN)
    return program


def find(program):
    """The program's file, found as a shell finds it; of a script the interpreter is there, too."""
    path = find_file(program)
    interpreter = interpreter_of(path)
    if interpreter and not os.path.exists(interpreter):
        raise CannotStart('{}: its interpreter {} is not there'.format(program, interpreter.replace('\r', '\\r')), CANNOT_RUN)
    return path


def interpreter_of(path):
    """The interpreter that the first line of a script names; None: there is no such line, or it cannot be read."""
    try:
        with open(path, 'rb') as file:
            line = file.readline(256)
    except OSError:
        return None
    words = re.split(b'[ \t\n]+', line[2:].strip(b' \t\n'), 1) if line.startswith(b'#!') else ['']
    return os.fsdecode(words[0]) or None


def why_not_preloaded(path):
    """Why the loader takes no LD_PRELOAD for this program; None: it does, as far as the file tells."""
    status = os.stat(path)
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return 'it runs with more rights than who starts it'
    if not os.access(path, os.R_OK):
        return None
    with open(path, 'rb') as file:
        head = file.read(64)
        if head[:4] != b'\x7fELF' or len(head) < 64:
            return None
        if head[4] != 2:
            return 'it is a 32-bit program'
        offset, size, count = struct.unpack_from('<Q', head, 32)[0], *struct.unpack_from('<HH', head, 54)
        file.seek(offset)
        table = file.read(size * count)
        count = len(table) // size if size else 0
    kinds = {struct.unpack_from('<I', table, i * size)[0] for i in range(count)}
    interpreter = 3
    return None if interpreter in kinds else 'it is linked statically'


class Ended:
    """How the program ended, and which process it was."""

    def __init__(self, status, process=None):
        self.process = process
        self.signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + self.signal


def run(command, environment):
    """Runs it until it ends; -> Ended. The first word is its file as found."""
    path = find(command[0])
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON + (signal.SIGCHLD,))
    why_read, why_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(why_read)
        start(path, command, environment, old_mask, why_write)
    os.close(why_write)
    try:
        why = os.read(why_read, 16)
        os.close(why_read)
        if why:
            os.waitpid(child, 0)
            raise CannotStart('{}: {}'.format(command[0], os.strerror(int(why))), CANNOT_RUN)
        return Ended(wait(child), child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


def is_binary(path):
    with open(path, 'rb') as file:
        return b'\0' in file.read(256) or file.seek(0) == 0 and file.read(4) == b'\x7fELF'


def start(path, command, environment, mask, why_write):
    """In the child. Never returns."""
    try:
        for name in ('SIGPIPE', 'SIGXFSZ'):  # Python ignores them
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.signal(signal.SIGINT, START_SIGINT)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            os.execve(path, command, environment)
        except OSError as why:
            if why.errno != errno.ENOEXEC or is_binary(path):
                raise
            os.execve('/bin/sh', ['sh', path] + command[1:], environment)  # as a shell does
    except OSError as why:
        os.write(why_write, str(why.errno).encode())
    finally:
        os._exit(CANNOT_RUN)


def wait(child):
    """Until the child has ended; -> its status."""
    while True:
        info = signal.sigwaitinfo(HANDED_ON + (signal.SIGCHLD,))
        if info.si_signo == signal.SIGCHLD:
            done, status = os.waitpid(child, os.WNOHANG)
            if done == child:
                return status
        elif info.si_code != BY_TERMINAL:
            os.kill(child, info.si_signo)


def end_like(ended):
    """The exit code; where a signal ended the program, this process ends by the same one."""
    if ended.signal is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(ended.signal, signal.SIG_DFL) if ended.signal not in (signal.SIGKILL, signal.SIGSTOP) else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [ended.signal])
        os.kill(os.getpid(), ended.signal)
    return ended.code


# How this process was started: with SIGINT ignored, the program is, too (a job in the background of a script).
START_SIGINT = signal.SIG_IGN if signal.getsignal(signal.SIGINT) == signal.SIG_IGN else signal.SIG_DFL
