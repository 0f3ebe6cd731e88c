"""SimulatedSink: rows come to the directory after a while, unless the process is gone by then."""

import random

import pytest

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.journal.journal_directory import JournalDirectory
from tests.simulation.journal.simulated_sink import SimulatedSink

OPERATION = (1, "a", "", 0, 2000, ("x",), 1)
LATER = (2, "b", "", 0, 2000, ("x",), 1)


class Bench:
    """A process with a sink; `confirmed` are the numbers of operations."""

    def __init__(self, world, *, fails=False):
        self.world = world
        self.confirmed = []
        self.directory = JournalDirectory(pytest.fail)
        self.process = Process(Machine(world, "server"), SimulatedNetwork(world))
        self.sink = self.new_sink(fails=fails)

    def new_sink(self, *, fails=False):
        sink = SimulatedSink(self.process, self.directory, random.Random(1), fails=fails)
        sink.start("db", lambda position: self.confirmed.append(position.operations))
        return sink

    @property
    def found(self):
        return [row[1] for row in self.directory.rows["operations"]]


@pytest.fixture
def bench(world):
    return Bench(world)


def test_written_and_confirmed(bench):
    """Rows are written together, and confirmed after that."""
    bench.sink.write([OPERATION], [])
    bench.sink.write([LATER], [])
    assert (bench.found, bench.confirmed) == ([], [])
    bench.world.run(30)
    assert (bench.found, bench.confirmed) == (["a", "b"], [2])


def test_a_process_that_is_killed_before(bench):
    """What it has not written is lost; the next one is told how far it came."""
    bench.sink.write([OPERATION], [])
    bench.process.kill()
    bench.sink.close()
    bench.world.run(30)
    assert (bench.found, bench.confirmed) == ([], [])
    assert bench.directory.open("db").operations == 0


def test_a_machine_that_sleeps(bench):
    """Nothing happens on it meanwhile."""
    bench.sink.write([OPERATION], [])
    bench.process.machine.suspend(100 * NS_PER_S)
    bench.world.run(90)
    assert bench.found == []
    bench.world.run(30)
    assert bench.found == ["a"]


def test_closed(bench):
    """What it has comes at once, and is not confirmed any more."""
    bench.sink.write([OPERATION], [])
    bench.sink.close()
    assert bench.found == ["a"]
    bench.world.run(30)
    assert bench.confirmed == []


def test_one_that_fails(world):
    """From some row on it has none."""
    bench = Bench(world, fails=True)
    for number in range(1, 1001):
        bench.sink.write([(number, *OPERATION[1:])], [])
    bench.world.run(30)
    assert 0 < len(bench.found) < 1000
