#!/usr/bin/env python3
"""Which share of a long test runs: shares take turns, and the commit decides whose turn it is.

usage: tests/rotation.py OF <LINES     prints every OF-th line of standard input

A commit always runs the same shares. KILN_ROTATION=N sets the turn instead; a test that prints `share 2 of 3` prints the same with any
N whose remainder is 2 when divided by 3. With KILN_LONG_TESTS=1 everything runs.
"""
import os
import subprocess
import sys


def turn():
    if 'KILN_ROTATION' not in os.environ:
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run(['git', '-C', root, 'rev-parse', 'HEAD'], capture_output=True, text=True)
        # Without git, as in a release tarball, always the first share.
        os.environ['KILN_ROTATION'] = str(int(done.stdout[:8], 16) if done.returncode == 0 else 0)
    return int(os.environ['KILN_ROTATION'])


def is_turn(share, of):
    """Whether this share runs, one of those numbered 0 to of - 1."""
    return bool(os.environ.get('KILN_LONG_TESTS')) or turn() % of == share % of


def rotated(items, of):
    """Every of-th of the items."""
    return [item for number, item in enumerate(items) if is_turn(number, of)]


if __name__ == '__main__':
    print('\n'.join(rotated(sys.stdin.read().splitlines(), int(sys.argv[1]))))
