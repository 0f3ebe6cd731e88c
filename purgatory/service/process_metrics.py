"""Metrics of the process of a server, gateway or worker. Any thread."""

import platform

from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector

from purgatory.service.protocol import VERSION
from purgatory.version import package_version


def register_process_metrics(registry: CollectorRegistry) -> None:
    """Register `purgatory_build_info`, `process_...` and `python_info`."""
    build = {
        "version": package_version(),
        "protocol": str(VERSION),
        "python": platform.python_version(),
    }
    Info("purgatory_build", "The version of this program", registry=registry).info(build)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
