#!/usr/bin/env python3
"""Fails every call that reaches the runtime, one in each run, until a run gets to its end without a failure.

every_call_fails.py HOST LIBRARY JOURNAL

The host must end normally each time. Steps whose calls all succeeded must have computed what they compute without a
failure: a call of the library's own that fails must not show.
"""
import os
import subprocess
import sys

host, library, journal = sys.argv[1:]


def run(environment):
    if os.path.exists(journal):
        os.remove(journal)
    done = subprocess.run([host], env={**os.environ, "CPUHIP_JOURNAL": journal, **environment}, capture_output=True,
                          text=True, timeout=60)
    with open(journal) as lines:
        return done, sum(1 for _ in lines)


native, _ = run({})
expected = native.stdout.splitlines()
assert native.returncode == 0 and all(" " in line and "hip" not in line for line in expected), native.stdout

bad = 0
n = 0
while True:
    n += 1
    done, calls = run({"LD_PRELOAD": library, "CPUHIP_FAIL": f"*:{n}:999"})
    sums = [line for line in done.stdout.splitlines() if line[0].isdigit()]
    wrong = [line for line in sums if line not in expected]
    if done.returncode != 0 or wrong:
        bad += 1
        print(f"call {n} failed: exit code {done.returncode}, wrong results {wrong}\n{done.stdout}{done.stderr}")
    if calls < n:
        break
    if n > 5000:
        sys.exit("the host never ran to its end")
print(f"{n - 1} calls failed in turn, {bad} runs were wrong")
sys.exit(1 if bad else 0)
