"""answers.py: running the probes, and what they print. It is Python 3.6, because it is shipped with the self-test."""
import os
import subprocess
import typing

# What a runtime answers that moves no data: nothing follows for other runtimes.
NO_DEVICE_WORK = ('kernels do not run', 'fills and copies do nothing', 'an exec does nothing')


class Answer(typing.NamedTuple):
    answer: str  # holds, fails or unknown
    value: str

    def __str__(self):
        return f'{self.answer}: {self.value}' if self.value else self.answer


def rows(command, environment=None):
    """The lines of a program of this folder, as lists of their columns."""
    done = subprocess.run([str(part) for part in command], env={**os.environ, **(environment or {})},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return [line.split('\t') for line in done.stdout.decode().splitlines()]


def short(version):
    """A version's two first numbers, as columns of the matrix have them."""
    return f'{version // 10_000_000}.{version // 100_000 % 100}'


def known(probes):
    """The sentence and the kind of every probe."""
    return {name: (kind, sentence) for name, kind, sentence in rows([probes, '--list'])}


def ask(probes, arguments=(), *, launcher=(), environment=None, runtime=None):
    """Answers by probe, the runtime's version and its device. Raises OSError where there is no runtime or no device.

    runtime: its file, for that text, where it is known.
    """
    (_, answer, told), *asked = rows([*launcher, probes, *arguments], environment)
    if answer != 'holds':
        raise OSError(f'no HIP device{f" by {runtime}" if runtime else ""}: {told}')
    version, device = told.split(' ', 1)
    return {name: Answer(answer, value) for name, answer, value in asked}, int(version), device


def relied(program, version):
    """What the engine relies on of that version: by probe `relied`, `never` or `not here`, and the lines of a policy."""
    return {name: (how, [line for line in otherwise.split(';') if line])
            for name, how, otherwise in rows([program, str(version)])}
