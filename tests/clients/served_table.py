"""served_table.py [--write] README PROGRAMS RUNTIME LIBRARY: the README's table of frameworks is what the reports of the programs
beside this file say. Each makes the calls that the framework makes for its step, on the CPU runtime: the shares are of calls, and
need no GPU. --write: makes it so.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'support'))
import runs  # noqa: E402

HEAD = '| framework | what its step does | served |\n| --- | --- | --- |\n'
CAPTURES, UPDATES, LAUNCHES = 'captures_served', 'updates_served', 'launches_by_an_exec_there_was'
WHAT = {CAPTURES: 'captures', UPDATES: 'updates', LAUNCHES: 'launches by an exec made before'}
# The framework, what its step does, the program and its arguments, and the rate that tells.
ROWS = [
    ('PyTorch', 'captures each step anew, in a pool of its own', ['torch_recapture'], CAPTURES),
    ('PyTorch', 'captures a training step, autograd in its own thread', ['autograd'], CAPTURES),
    ('JAX (XLA)', 'sets the nodes whose buffers moved, between two addresses by turns', ['xla'], LAUNCHES),
    ('llama.cpp', 'captures each token, as a copy moves, and updates one exec, on HIP 5 (below)', ['llama'], UPDATES),
    ('vLLM, SGLang', 'captures 40 graphs, and all of them again after each of four wake-ups from sleep', ['many_graphs', '--graphs', '40'], CAPTURES),
    ('vLLM, SGLang', 'captures 200 graphs, and all of them again after each of four wake-ups from sleep', ['many_graphs'], CAPTURES),
    ('Kokkos', 'adds nodes, then edges, each step anew', ['kokkos'], CAPTURES)]


def row(framework, step, program, rate, programs, runtime, library):
    # Comparing is always on: what it costs here says nothing of another machine.
    done = runs.run([pathlib.Path(programs) / ('client_' + program[0]), *program[1:]], runtime=runtime, preload=library, report=True,
                    journal=False, environment={'GRAPHPOOL_GRAPH_WEIGH': 'false'})
    if done.code != 0:
        raise SystemExit(f'{program}: code {done.code}\n{done.stderr}')
    part, of = done.report['rates'][rate]['part'], done.report['rates'][rate]['of']
    return f'| {framework} | {step} | {part} of {of} {WHAT[rate]} |\n'


def main(arguments):
    write = arguments[0] == '--write'
    readme, programs, runtime, *library = arguments[write:]
    wanted = HEAD + ''.join(row(*each, programs, runtime, library) for each in ROWS)
    text = pathlib.Path(readme).read_text()
    found = re.search(re.escape(HEAD) + r'(\|.*\n)*', text)
    if found is None:
        print(f'{readme}: there is no table of frameworks')
        return 1
    if found[0] == wanted:
        return 0
    if write:
        pathlib.Path(readme).write_text(text[:found.start()] + wanted + text[found.end():])
        return 0
    print(f'{readme} has\n{found[0]}and the reports say\n{wanted}')
    return 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
