"""Tests that need more than one run of one program: privileges, files that change, other
compilers. Each yields (what, why it failed or None) and raises Skip where it cannot run."""


class Skip(Exception):
    pass


SCENARIOS = []
