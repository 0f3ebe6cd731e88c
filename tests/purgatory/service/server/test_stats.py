"""ServerStats: the numbers of a server, and which of them `/metrics` shows."""

from dataclasses import fields

from prometheus_client import CollectorRegistry

from purgatory.service.http.metrics import ServerCollector
from purgatory.service.server.stats import COUNTER, GAUGE, ServerStats


def test_numbers(serve, connect):
    """Stats are those of the server; its registry has its purgatory's and timer's metrics."""
    registry = CollectorRegistry()
    server = serve({"registry": registry})
    client = connect(server, name="me")
    client.defer("a", timeout=60)
    client.defer("b", timeout=60)
    client.flush()
    client.complete("a")
    stats = server.stats()
    assert (stats.pending, stats.submitted, stats.completed, stats.connections) == (1, 2, 1, 1)
    assert stats.commits >= 2
    assert stats.commit_seconds > 0
    assert stats.store_bytes > 0
    assert client.stats()["submitted"] == 2
    assert registry.get_sample_value("purgatory_operations_pending", {"name": "service"}) == 1
    assert registry.get_sample_value("timingwheel_timers_pending", {"name": "service"}) == 1
    assert server.state.timer.stats().pending == server.state.purgatory.delayed == 1
    server.close()
    assert registry.get_sample_value("purgatory_operations_pending", {"name": "service"}) is None


def test_metrics_show_each_number(serve):
    """But for `pending`, which is among the purgatory's own, and outcomes, which have a label."""
    server = serve(memory=True)
    registry = CollectorRegistry()
    registry.register(ServerCollector(server, lambda: 3))
    stats = server.stats()
    for each in fields(ServerStats):
        name = f"purgatory_server_{each.name}"
        if each.metadata["kind"] == GAUGE and not each.name.endswith("_seconds"):
            assert registry.get_sample_value(name) == getattr(stats, each.name)
        elif each.metadata["kind"] == COUNTER:
            assert registry.get_sample_value(f"{name}_total") is not None
    for outcome in ("completed", "failed", "expired", "cancelled"):
        labels = {"outcome": outcome}
        assert registry.get_sample_value("purgatory_server_outcomes_total", labels) == 0
    assert registry.get_sample_value("purgatory_server_refused_handshakes_total") == 3


def test_remembered_ids(serve, connect):
    """How many ids of callers count, and how many may: the page and the alerts compare them."""
    server = serve(memory=True, max_remembered=5)
    client = connect(server)
    client.submit("k", op_id="a", timeout=60)
    client.submit("k", op_id="b", timeout=60, unique_for=0)
    client.submit("k", timeout=60)
    registry = CollectorRegistry()
    registry.register(ServerCollector(server, lambda: 0))
    assert registry.get_sample_value("purgatory_remembered_ids") == 1
    assert registry.get_sample_value("purgatory_max_remembered_ids") == 5
