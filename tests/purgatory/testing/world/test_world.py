"""World: events in order of time, and time that does not wait."""

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.world import NS_PER_S, World


def test_events_come_in_order(world):
    """Those of one moment in the order in which they were planned."""
    seen = []
    for delay, name in ((20, "c"), (10, "a"), (10, "b")):
        world.after(delay, lambda name=name: seen.append((world.now_ns, name)))
    while world.step():
        pass
    assert seen == [(10, "a"), (10, "b"), (20, "c")]


def test_time_jumps_to_the_end(world):
    """Also if nothing happens until then; later events stay."""
    seen = []
    world.after(3 * NS_PER_S, lambda: seen.append(1))
    world.run(2)
    assert (world.now_ns, seen) == (2 * NS_PER_S, [])
    assert world.run_until(lambda: bool(seen), 2)
    assert world.now_ns == 3 * NS_PER_S


def test_lost_time_makes_events_late(world):
    """They come at once, when the one that has lost time is over."""
    seen = []
    world.after(1, lambda: world.lose_time(100))
    world.after(5, lambda: seen.append(world.now_ns))
    world.run(1)
    assert seen == [101]


def test_the_seed_decides():
    """One seed, one sequence."""
    assert World(7).spread(1, 100) == World(7).spread(1, 100) != World(8).spread(1, 100)


def test_clocks_of_a_machine(world):
    """Suspended, its monotonic clock stands still; a boot begins both anew, and not the wall's."""
    machine = Machine(world, "m")
    machine.suspend(4 * NS_PER_S)
    world.run(10)
    assert machine.boot_ns() == 11 * NS_PER_S
    assert machine.monotonic_ns() == 7 * NS_PER_S
    before, boot = machine.wall_ns(), machine.boot_id
    machine.lose_power()
    assert machine.boot_ns() == machine.monotonic_ns() == NS_PER_S
    assert machine.wall_ns() == before
    assert machine.boot_id != boot


def test_a_clock_that_drifts(world):
    """It counts more than passes, or less, and nothing is counted anew when its speed changes."""
    machine = Machine(world, "m")
    start_ns = machine.boot_ns()
    world.run(10)
    machine.drift(500)
    world.run(100)
    assert machine.boot_ns() - start_ns == 110 * NS_PER_S + NS_PER_S // 20
    machine.drift(-500)
    world.run(200)
    assert machine.monotonic_ns() - start_ns == 310 * NS_PER_S - NS_PER_S // 20
    machine.lose_power()
    assert machine.boot_ns() == NS_PER_S
