"""Settings of all tests: hypothesis has no deadlines, Ctrl-C works, Spark may be missing."""

import gc
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The extra `postgres` may be missing; the tests that need it are skipped then.
if find_spec("psycopg") is not None:
    from tests.postgres.fixtures import *  # noqa: F403

settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")

# A shell starts background jobs with SIGINT ignored, and processes that tests start inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# These import the extra `spark`.
OF_SPARK = (
    "benchmarks/test_draw.py",
    "benchmarks/test_jvm.py",
    "benchmarks/test_scripts.py",
    "purgatory/cli/spark/",
    "purgatory/spark/",
)


class SkippedModule(pytest.Module):
    """A module of tests for a Python that PySpark, or the pandas it wants, has no wheel for."""

    def collect(self):
        """Skip, before what it imports is missed."""
        pytest.skip("no PySpark for this Python", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    """Skip the modules that need PySpark where it is not installed."""
    inside = module_path.relative_to(Path(__file__).parent).as_posix()
    if inside.startswith(OF_SPARK) and find_spec("pyspark") is None:
        return SkippedModule.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items):
    """Refuse a test's id with an address: each process of the suite would have another."""
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"ids of tests with addresses: {unstable}")


def pytest_collection_finish():
    """Take the tests themselves from what the collector looks at: a quarter of the suite's time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable():
    """Escape halves of surrogate pairs in reports, or no process could send them to the first."""
    return _encodable((yield))


def _encodable(value):
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_encodable, value))
    return value


@pytest.fixture
def unraisable_ignored(monkeypatch):
    """Tell nobody of exceptions in finalizers, and in the callbacks of weak references."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


@pytest.fixture
def collector_paused():
    """No cyclic garbage is collected meanwhile: for tests that parse sources.

    On CPython 3.11, until 3.11.7, `ast.parse` fails if a finalizer that runs meanwhile parses
    something, or lets another thread do so: printing a traceback does (its issue 106905).
    """
    gc.disable()
    yield
    gc.enable()
