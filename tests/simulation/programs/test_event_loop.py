"""SimulatedEventLoop: tasks and timeouts in the world's time, until the process is killed."""

import asyncio

import pytest

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from tests.simulation.programs.event_loop import SimulatedEventLoop


@pytest.fixture
def process(world):
    return Process(Machine(world, "m"), SimulatedNetwork(world))


@pytest.fixture
def loop(process):
    return SimulatedEventLoop(process)


def test_sleeps_take_the_time_of_the_world(world, loop):
    """Tasks sleep beside each other, each for as long as it asks; nothing waits in real time."""
    ended = []

    async def sleep(seconds):
        await asyncio.sleep(seconds)
        ended.append((seconds, round(asyncio.get_running_loop().time() - 1)))

    tasks = [loop.create_task(sleep(seconds)) for seconds in (3600, 60)]
    loop.call_soon_threadsafe(int)
    world.run(7200)
    assert ended == [(60, 60), (3600, 3600)]
    assert all(task.done() for task in tasks)


def test_a_timeout(world, loop):
    """`wait_for` gives up after its time, and cancels what it has waited for."""
    waited = []

    async def wait():
        future = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(future, 30)
        waited.append(future.cancelled())

    loop.call_soon_threadsafe(loop.create_task, wait())
    world.run(29)
    assert waited == []
    world.run(2)
    assert waited == [True]


def test_what_is_posted_is_taken_one_at_a_time(world, loop):
    """All that follows from one is done before the next, however often that goes round the loop."""
    told = []

    def post(name, turns):
        told.append(name)
        if turns:
            loop.call_soon(post, name, turns - 1)

    loop.call_soon_threadsafe(post, "slow", 3)
    loop.call_soon_threadsafe(post, "quick", 0)
    world.run(1)
    assert told == ["slow"] * 4 + ["quick"]


def test_nothing_runs_in_a_process_that_was_killed(world, process, loop):
    """Neither timers nor what was posted; what is posted later has no effect on the world."""
    told = []
    loop.call_soon_threadsafe(told.append, "posted")
    loop.call_later(5, told.append, "timer")
    process.kill()
    steps = world.random.getstate()
    loop.call_soon_threadsafe(told.append, "later")
    loop.call_soon(told.append, "soon")
    world.run(10)
    assert told == []
    assert world.random.getstate() == steps
    assert loop.is_closed()


def test_what_a_callback_raises_ends_the_world(world, loop):
    """An error of the simulation itself must not be lost."""
    loop.call_soon_threadsafe(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        world.run(1)


def test_a_cancelled_call(world, loop):
    """It is not made."""
    told = []
    loop.call_later(5, told.append, "cancelled").cancel()
    loop.call_later(6, told.append, "timer")
    loop.call_soon_threadsafe(int)
    world.run(10)
    assert told == ["timer"]


def test_the_running_loop_of_another_program(world, loop):
    """A world can be run in an event loop: that is the running one again after each step."""

    async def run():
        loop.call_soon_threadsafe(int)
        world.run(1)
        return asyncio.get_running_loop()

    assert asyncio.run(run()) is not loop
    assert not loop.is_running()
