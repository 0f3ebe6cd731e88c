"""ClusterStatus: why a server takes no requests."""

import pytest
from prometheus_client import CollectorRegistry, Counter

from purgatory.service.cluster.cluster_status import (
    ClusterCollector,
    ClusterStatus,
    JoinedRegistry,
    Role,
    standby_message,
)
from purgatory.service.errors import Standby


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"role": Role.STANDBY, "active": "tcp://a:7411"}, "standby of tcp://a:7411"),
        ({"role": Role.STANDBY}, "standby: no server is active"),
        ({"role": Role.LOADING}, "loading"),
        ({"role": Role.CLOSING}, "closing"),
        ({"role": Role.ACTIVE}, ""),
        ({"role": Role.ACTIVE, "overdue_s": 7.2}, "the lease ended 7 s ago"),
    ],
)
def test_the_trouble_of_each_role(changes, trouble):
    """It is what `/readyz` says; an active server with a lease has none."""
    found = ClusterStatus(address="tcp://b:7411", **changes).trouble
    assert found.startswith(trouble)
    assert bool(found) == bool(trouble)


def test_a_client_can_read_what_a_standby_answers():
    """The address comes out of the message again."""
    assert Standby(standby_message("tcp://a:7411")).address == "tcp://a:7411"
    assert Standby(standby_message("")).address == ""


def test_all_figures():
    """Those of the moment."""
    status = ClusterStatus(
        role=Role.ACTIVE,
        address="tcp://a:7411",
        epoch=7,
        replicated=True,
        standbys=["tcp://b:7411", "tcp://c:7411"],
        takeovers=3,
        beat_age_s=0.5,
        drift_ms=-20,
    )
    registry = CollectorRegistry()
    registry.register(ClusterCollector(lambda: status))
    found = {
        name: registry.get_sample_value(f"purgatory_cluster_{name}")
        for name in (
            "is_active",
            "epoch",
            "replicated",
            "standbys",
            "takeovers_total",
            "last_beat_age_seconds",
            "clock_drift_seconds",
        )
    }
    assert list(found.values()) == [1, 7, 1, 2, 3, 0.5, -0.02]


def test_a_registry_with_another_one():
    """The other one comes and goes with the active server."""
    registry, other = JoinedRegistry(), CollectorRegistry()
    Counter("mine", "text", registry=registry)
    Counter("theirs", "text", registry=other)
    assert [metric.name for metric in registry.collect()] == ["mine"]
    registry.joined = other
    assert [metric.name for metric in registry.collect()] == ["mine", "theirs"]
