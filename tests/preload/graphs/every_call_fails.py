#!/usr/bin/env python3
"""Fails every call that reaches the runtime, one in each run, until a run gets to its end without a failure.

every_call_fails.py [--code N] [--every N] [--allow LINE] HOST LIBRARY JOURNAL

The host must end normally each time. Steps whose calls all succeeded must have computed what they compute without a
failure: a call of the library's own that fails must not show. An error it prints must be one that it prints natively
when some call fails, or one allowed. A host that prints what the runtime holds at its end ("held: NAME=COUNT ...") must
not hold more than without a failure, unless what failed was giving a handle back. How many events these are is a matter
of time, but where each call waits for its work (CPUHIP_SERIALISE). So may one stream more be, where a launch still ran when
the library looked for a stream of its own: only what each of three runs holds beyond is a leak.
"""
import argparse
import os
import subprocess
import sys

arguments = argparse.ArgumentParser()
arguments.add_argument("--code", default="999", help="what the failing call returns")
arguments.add_argument("--every", type=int, default=1, help="under the library fail only every n-th call")
arguments.add_argument("--allow", action="append", default=[], help="an error that only the library has a reason for")
arguments.add_argument("host")
arguments.add_argument("library")
arguments.add_argument("journal")
options = arguments.parse_args()


def run(environment):
    """The host's lines, its exit code and messages, and the calls that reached the runtime with their results."""
    if os.path.exists(options.journal):
        os.remove(options.journal)
    done = subprocess.run([options.host], env={**os.environ, "CPUHIP_JOURNAL": options.journal, **environment},
                          capture_output=True, text=True, timeout=60)
    with open(options.journal) as lines:
        calls = [(line.split()[0], line.split()[-1]) for line in lines]
    return done, done.stdout.splitlines(), calls


def each_failed(environment, every):
    n = 1
    while True:
        done, lines, calls = run({**environment, "CPUHIP_FAIL": f"*:{n}:{options.code}"})
        if len(calls) < n:
            return
        yield n, done, lines, calls
        n += every
        if n > 5000:
            sys.exit("the host never ran to its end")


def is_error(line):
    return ": hip" in line


def held(lines):
    return {name: int(count) for line in lines if line.startswith("held: ")
            for name, count in (pair.split("=") for pair in line.split()[1:])
            if name != "events" or "CPUHIP_SERIALISE" in os.environ}


native, expected, _ = run({})
assert native.returncode == 0 and not any(is_error(line) for line in expected), native.stdout + native.stderr
done, lines, _ = run({"LD_PRELOAD": options.library})
baseline = held(lines)
assert done.returncode == 0 and [line for line in lines if not line.startswith("held: ")] == \
    [line for line in expected if not line.startswith("held: ")], (done.stdout, done.stderr, native.stdout)

errors = set(options.allow)
for _, done, lines, _ in each_failed({}, 1):
    errors.update(line for line in lines if is_error(line))

def beyond(lines):
    return [f"{name}={value} instead of {baseline[name]}" for name, value in held(lines).items() if value > baseline[name]]


bad = 0
count = 0
for n, done, lines, calls in each_failed({"LD_PRELOAD": options.library}, options.every):
    count += 1
    failed = calls[n - 1][0]
    wrong = [line for line in lines if not line.startswith("held: ") and line not in expected and line not in errors]
    gives_back = "Destroy" in failed or failed == "hipMemAddressFree"
    more = [] if gives_back else beyond(lines)
    for _ in range(2):
        if more:
            more = beyond(run({"LD_PRELOAD": options.library, "CPUHIP_FAIL": f"*:{n}:{options.code}"})[1])
    if done.returncode != 0 or wrong or more:
        bad += 1
        print(f"call {n}, {failed}, failed: exit code {done.returncode}, wrong lines {wrong}, held {more}")
        print(done.stderr, end="")
        if done.returncode != 0:
            print(done.stdout, end="")
print(f"{count} calls failed in turn, {bad} runs were wrong; errors that may be: {len(errors)}")
sys.exit(1 if bad or count == 0 else 0)
