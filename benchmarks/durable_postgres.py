"""A PostgreSQL of this machine that syncs each commit, as the tests start it.

Importing this makes `tests` importable; what is installed comes before the checkout.
"""

import importlib
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
# Untyped.
_clusters: Any = importlib.import_module("tests.postgres.cluster")
_leases: Any = importlib.import_module("tests.testing.held_lease")
_programs: Any = importlib.import_module("tests.postgres.programs")
_SETTINGS = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB"}


def is_installed() -> bool:
    """Return whether this machine has a PostgreSQL."""
    found: bool = _programs.is_installed()
    return found


@contextmanager
def durable_postgres() -> Iterator[str]:
    """Run a PostgreSQL in a directory of its own; yields the URL of its database."""
    with _clusters.PostgresCluster(settings=_SETTINGS) as cluster:
        yield cluster.url


def remove_template() -> None:
    """Remove what further databases would be copied from."""
    _clusters.remove_template()


def open_store(url: str) -> Any:
    """Return the store of a database, whose lease the caller holds; its clock is right."""
    logging.getLogger("purgatory").setLevel(logging.ERROR)  # that tables are made is no news here
    store = _leases.open_store(url)
    store.lease.clock_ms = int(time.time() * 1000)
    return store
