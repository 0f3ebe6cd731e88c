"""The metrics of the process: its build, its memory, processor time and descriptors."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory.service.protocol import VERSION
from purgatory.service.version import package_version


def register_process_metrics(registry: CollectorRegistry) -> None:
    """Have a registry show `purgatory_build_info`, `process_...` and `python_info`."""
    registry.register(_BuildCollector())
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)


class _BuildCollector(Collector):
    """Shows which program this is, in labels of a metric that is always 1."""

    def collect(self) -> Iterable[Metric]:
        """Yield the metric."""
        labels = {
            "version": package_version(),
            "protocol": str(VERSION),
            "python": platform.python_version(),
        }
        yield InfoMetricFamily("purgatory_build", "The version of this program", labels)
