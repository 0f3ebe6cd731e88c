"""World: events in order of time, and time that does not wait."""

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

    def lose_time():
        world.now_ns += 100

    world.after(1, lose_time)
    world.after(5, lambda: seen.append(world.now_ns))
    world.run(1)
    assert seen == [101]


def test_the_seed_decides():
    """One seed, one sequence."""
    assert World(7).spread(1, 100) == World(7).spread(1, 100) != World(8).spread(1, 100)
