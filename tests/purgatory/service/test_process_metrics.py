"""The figures of a process."""

from prometheus_client import CollectorRegistry

from purgatory.service.process_metrics import register_process_metrics


def test_version_memory_and_interpreter():
    """A registry shows them once."""
    registry = CollectorRegistry()
    register_process_metrics(registry)
    names = {family.name for family in registry.collect()}
    assert {"purgatory_build", "python_info", "process_resident_memory_bytes"} <= names
