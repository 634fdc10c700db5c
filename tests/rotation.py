#!/usr/bin/env python3
"""Which share of a long test runs: shares take turns, and the commit decides whose turn it is.

usage: tests/rotation.py OF <LINES     prints every OF-th line of standard input

A commit always runs the same shares. KILN_ROTATION=N sets the turn instead: N and N + 3 run the same of three shares. With
KILN_LONG_TESTS=1 everything runs.
"""
import os
import subprocess
import sys


def turn():
    if not os.environ.get('KILN_ROTATION'):
        os.environ['KILN_ROTATION'] = str(turn_of_commit())
    try:
        return int(os.environ['KILN_ROTATION'])
    except ValueError:
        sys.exit(f'invalid KILN_ROTATION={os.environ["KILN_ROTATION"]}; use a number, such as 0, 1 or 2')


def turn_of_commit():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        # In containers, the files often belong to another user, which git refuses by default.
        done = subprocess.run(['git', '-c', 'safe.directory=*', '-C', root, 'rev-parse', 'HEAD'], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True)
        return int(done.stdout[:8], 16)
    except (OSError, subprocess.CalledProcessError):
        return 0  # a release tarball, or no git


def is_turn(share, of):
    """Whether this share runs, one of those numbered 0 to of - 1."""
    return bool(os.environ.get('KILN_LONG_TESTS')) or turn() % of == share % of


def rotated(items, of):
    """Every of-th of the items."""
    return [item for number, item in enumerate(items) if is_turn(number, of)]


if __name__ == '__main__':
    print('\n'.join(rotated(sys.stdin.read().splitlines(), int(sys.argv[1]))))
