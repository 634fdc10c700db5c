"""The list of scenarios."""
import collections

SCENARIOS = []
Scenario = collections.namedtuple('Scenario', 'name row function measures waits embedded')


class Skip(Exception):
    """This machine cannot run the scenario."""


def scenario(row, measures=True, waits=False, embedded=False):
    """row: of the table, or what it is about. waits: a generator that yields, once, how many seconds
    must pass before the rest of it can hold. embedded: of the embedded store only."""
    def add(function):
        SCENARIOS.append(Scenario(function.__name__, row, function, measures, waits, embedded))
        return function
    return add
