"""Worlds of two servers over one database: they keep what one server promises."""

import pytest

pytest.importorskip("psycopg")

from purgatory.service.cluster.store_lease import StoreLease
from tests.simulation.cluster import cluster_simulation
from tests.simulation.cluster.cluster_simulation import KINDS, ClusterSimulation, simulate

SECONDS = 15.0


@pytest.mark.parametrize("seed", range(3))
def test_every_promise_is_kept(seed):
    """Over takeovers, doubts, half-sent groups and clocks that differ by minutes."""
    verdict = simulate(seed, SECONDS)
    assert verdict.violation == ""
    assert verdict.operations


def test_a_seed_is_always_the_same_world():
    """Its history, to the last line."""
    first, second = (simulate(3, 10.0, with_history=True) for _ in range(2))
    assert first.history == second.history
    assert len(first.history) > 100


def test_servers_take_over_and_hosts_have_clocks_apart():
    """Without that the worlds would test nothing."""
    simulation = ClusterSimulation(0, SECONDS)
    errors = {host.machine.wall_error_ns for host in simulation.hosts}
    assert simulation.run().violation == ""
    assert len(errors) == 2
    assert all(host.takeovers for host in simulation.hosts)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_alone(kind):
    """It happens, and every promise is kept."""
    simulation = ClusterSimulation(1, 10.0)
    simulation.faults.kinds, simulation.faults._mean_s = [kind], 2.0
    verdict = simulation.run()
    assert verdict.violation == ""
    assert verdict.faults[kind]


def test_faults_end_while_hosts_wait():
    """Their machines are suspended faster than time passes, so calls to the database wait on."""
    simulation = ClusterSimulation(6, 20.0)
    simulation.faults.kinds, simulation.faults._mean_s = ["host_suspended"], 0.3
    assert simulation.run().violation == ""


def test_a_world_that_does_not_end_is_found(monkeypatch):
    """It is told instead of waited for."""
    monkeypatch.setattr(cluster_simulation, "_LONGEST_S", 1.0)
    assert simulate(1, 2.0).violation == "AssertionError: a host waits for ever"


def test_a_missing_guard_is_found(monkeypatch):
    """A server that was stopped answers after another one has."""
    monkeypatch.setattr(StoreLease, "is_valid", lambda _: True)
    found = [quiet_world(seed).violation for seed in GUARD_SEEDS]
    assert any("has answered after another server had taken over" in each for each in found)


def test_with_the_guard_the_same_worlds_are_right():
    """So the guard is what was missing."""
    assert [quiet_world(seed).violation for seed in GUARD_SEEDS] == [""] * len(GUARD_SEEDS)


def quiet_world(seed):
    """Run a world in which machines are suspended, and nothing else happens to them."""
    simulation = ClusterSimulation(seed, 30.0)
    simulation.faults.kinds, simulation.faults._mean_s = ["host_suspended"], 6.0
    return simulation.run()


#: Worlds in which a server that was suspended has something to answer when it goes on.
GUARD_SEEDS = (5, 45)
