#!/usr/bin/env python3
"""Write docs/reference/metrics.md from the collectors of Prometheus.

A test compares the page with the collectors. One thread; starts a server in a temporary directory.

    scripts/write_metrics_reference.py
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from purgatory import Purgatory
from purgatory.service.cluster.cluster_status import ClusterCollector, ClusterStatus, Role
from purgatory.service.config import Config
from purgatory.service.gateway.health import Health
from purgatory.service.process_metrics import register_process_metrics
from purgatory.service.server_assembly import ServerAssembly
from purgatory.service.worker.lease_returns import WorkerCounts
from purgatory.service.worker.worker_metrics import WorkerCollector
from purgatory.spark.stream.entry import CheckpointEntry
from purgatory.spark.stream.metrics import StreamMetrics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "metrics.md"
HEAD = """\
# Metrics

`scripts/write_metrics_reference.py` writes this page from the collectors. Units are in the names.
A histogram has series with `_bucket`, `_sum` and `_count`. No label holds a watch key, an id or the
name of a client.
"""
OF_A_SERVER = """\
Of a server `purgatory_held_events` and `mq_mailbox_…` are 0: see `purgatory_server_held` and
`purgatory_server_store_backlog`.
"""


def page() -> str:
    """Return the text of the page."""
    first, *others = (_section(*each) for each in _places())
    return "\n\n".join([HEAD.strip(), first, OF_A_SERVER.strip(), *others]) + "\n"


def _places() -> Iterator[tuple[str, Iterable[Metric]]]:
    """Yield the title of each section with its metrics."""
    library = CollectorRegistry()
    with Purgatory(registry=library):
        of_library = list(library.collect())
    yield "`purgatory.metrics.serve`, and `purgatory serve`", of_library
    names = {metric.name for metric in of_library}
    yield "`purgatory serve`", [each for each in _of_server() if each.name not in names]
    status = ClusterStatus(role=Role.STANDBY, address="")
    yield "`purgatory serve --store`", ClusterCollector(lambda: status).collect()
    yield "`purgatory worker --metrics-port`", WorkerCollector(WorkerCounts(), int, 1).collect()
    connector: Any = None  # only readiness asks a server
    yield "`purgatory gateway`", Health(connector).collect()
    stream: Any = SimpleNamespace(name="", entry=CheckpointEntry())  # without a Spark session
    yield "`purgatory spark run --metrics-port`", StreamMetrics(stream).collect()
    process = CollectorRegistry()
    register_process_metrics(process)
    yield "Each server, worker and gateway", process.collect()


def _of_server() -> list[Metric]:
    with tempfile.TemporaryDirectory() as directory:
        config = Config(data_dir=Path(directory), bind="tcp://127.0.0.1:*", http_bind="")
        assembly = ServerAssembly(config, None)
        assembly.start()
        try:
            return list(assembly.server.registry.collect())
        finally:
            assembly.server.close()


def _section(title: str, metrics: Iterable[Metric]) -> str:
    rows = [_row(metric) for metric in metrics]
    return "\n".join(
        [f"## {title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|", *rows]
    )


def _row(metric: Metric) -> str:
    """Return the row of a metric, under the name that queries use."""
    suffix = {"counter": "_total", "info": "_info"}.get(metric.type, "")
    labels = ", ".join(f"`{label}`" for label in _labels(metric))
    meaning = metric.documentation.rstrip(".")
    return f"| `{metric.name}{suffix}` | {metric.type} | {labels} | {meaning} |"


def _labels(metric: Metric) -> tuple[str, ...]:
    """Return a metric's labels; prometheus-client keeps them in a private field."""
    declared = tuple(getattr(metric, "_labelnames", ()))
    found = {label for each in metric.samples for label in each.labels} - {"le"}
    return declared or tuple(sorted(found))


if __name__ == "__main__":
    PAGE.write_text(page())
