"""The figures of a server among others, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter

from purgatory.service.cluster.cluster_metrics import ClusterCollector, JoinedRegistry
from purgatory.service.cluster.cluster_status import ClusterStatus, Role


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
