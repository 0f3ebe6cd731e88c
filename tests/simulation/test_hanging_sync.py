"""HangingSync: a sync that does not return for long, in a world that goes on."""

from purgatory.service.server import server_health
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.hanging_sync import HangingSync


def hang(simulation, seconds):
    """Let the next sync hang; returns what is reported of the server meanwhile."""
    said = []
    sync = HangingSync(simulation.server, simulation.troubles, seconds, said.append)
    simulation.server.machine.disk.set_faults(lambda _: None, sync.before_sync)
    return said


def seconds_with(simulation, *words):
    """Return the times of lines of the history with any of these words."""
    lines = simulation.world.history
    return [float(line.split()[0]) for line in lines if any(word in line for word in words)]


def test_nothing_is_answered_meanwhile(simulation):
    """Programs go on asking, and get their answers when it is over."""
    said = hang(simulation, 70.0)
    simulation.world.run(100)
    [start] = seconds_with(simulation, "hangs for 70 s")
    asked = seconds_with(simulation, "submits")
    answered = seconds_with(simulation, "is pending", "answer:", "told:")
    assert any(start + 5 < at < start + 70 for at in asked)
    assert not any(start + 5 < at < start + 70 for at in answered)
    assert any(at > start + 70 for at in answered)
    assert said == []
    assert simulation.oracle.violation is None


def test_a_server_that_takes_itself_for_well(simulation, monkeypatch):
    """Both are said: that it was ready, and that it worked."""
    monkeypatch.setattr(server_health, "READY_BOUND_S", 1e9)
    monkeypatch.setattr(server_health, "STUCK_S", 1e9)
    said = hang(simulation, 70.0)
    simulation.world.run(100)
    assert len(said) == 2
    assert "says it is ready" in said[0]
    assert "says it works" in said[1]


def test_a_server_that_is_killed_meanwhile(simulation):
    """It is started again at once: its disk is well."""
    hang(simulation, 100.0)
    simulation.world.after(10 * NS_PER_S, simulation.server.kill)
    simulation.world.run(20)
    assert simulation.server.process is not None
    assert simulation.server.starts == 2
    assert simulation.world.now_ns < 30 * NS_PER_S


def test_a_machine_that_is_suspended_meanwhile(simulation):
    """The sync does not return before the machine is awake."""
    hang(simulation, 10.0)
    machine = simulation.server.machine
    simulation.world.after(5 * NS_PER_S, lambda: machine.suspend(60 * NS_PER_S))
    simulation.world.run(60)
    [start] = seconds_with(simulation, "hangs for 10 s")
    answered = seconds_with(simulation, "is pending", "answer:")
    assert not any(start + 5 < at < 70 for at in answered)
