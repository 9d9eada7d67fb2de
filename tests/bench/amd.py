"""amd.py BUILD [OPTION...] [NAME...]: what graphs and memory cost the host on AMD's own runtimes, natively against the library.

The benchmarks `recapture` and `calls` are compiled against each runtime that scripts/amd has brought, and run on HSA on the CPU
of the build folder BUILD, where kernels complete at once: what is measured is AMD's own host code. A benchmark's name ends in
the version. Options as ab.py's, which measures.
"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
PROGRAMS = {'recapture': 'a step that captures its graph again, moved or not', 'calls': 'single calls'}


def compile_against(root, source, target):
    """The program, linked against the runtime below `root`; older than the source, it is made anew."""
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return
    libraries = [library for name in ('amdhip64', 'hiprtc') for library in (root / 'usr/lib/x86_64-linux-gnu').glob(f'lib{name}.so')]
    subprocess.run(['g++', '-std=c++20', '-O2', '-D__HIP_PLATFORM_AMD__', f'-I{TOP}', '-o', target, source, *libraries,
                    # What the runtime itself needs is found when it runs, with its own C library.
                    '-Wl,--allow-shlib-undefined', '-Wl,--unresolved-symbols=ignore-in-shared-libs', '-lpthread', '-ldl'],
                   check=True)


def benchmarks(build, roots):
    for root in roots:
        libraries = f'{build / "tests/runtimes/amd"}:{root / "usr/lib/x86_64-linux-gnu"}'
        for name, about in PROGRAMS.items():
            program = root / f'{name}_bench'
            compile_against(root, HERE / f'{name}.cpp', program)
            yield {'name': f'{name}_{root.name}', 'kind': 'pair', 'about': f"{about}, on AMD's {root.name}", 'runs': 5, 'quick_runs': 2,
                   'environment': {'HSACPU_KERNELS': '0'},  # what the host costs: kernels do nothing
                   'command': [str(root / 'usr/lib64/ld-linux-x86-64.so.2'), '--library-path', libraries, str(program)]}


def main(build, *options):
    build = pathlib.Path(build).resolve()
    roots = sorted(path.parent for path in (TOP / 'build-amd').glob('*/complete'))
    if not roots:
        sys.exit('no runtime of AMD\'s is there: scripts/amd brings them')
    listed = TOP / 'build-amd/benchmarks.json'
    listed.write_text(json.dumps({'library': str(build / 'hooks/libgraphpool.so'), 'benchmarks': list(benchmarks(build, roots))}))
    return subprocess.run([sys.executable, HERE.parent / 'support/ab.py', listed, *options], check=False).returncode


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
