"""cases.py: a suite of cases, each a function and a test of its own.

SUITE CONFIG CASE runs one; SUITE --list prints their names. CONFIG (made by Meson) is a JSON object. Exit code 77:
skipped, the last line says why.
"""
import json

CASES = {}
CONFIG = {}


class Skipped(Exception):
    pass


def case(function):
    CASES[function.__name__] = function
    return function


def main(arguments):
    if arguments == ['--list']:
        print('\n'.join(CASES))
        return 0
    with open(arguments[0]) as file:
        CONFIG.update(json.load(file))
    try:
        CASES[arguments[1]]()
    except Skipped as reason:
        print(reason)
        return 77
    except AssertionError as failure:
        print(failure)
        return 1
    return 0
