"""Fixtures for pytest, loaded wherever the package is installed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from purgatory.testing.manual_purgatory import ManualPurgatory
    from purgatory.testing.service_world import ServiceWorld


@pytest.fixture
def manual_purgatory() -> "Iterator[ManualPurgatory]":
    """A `ManualPurgatory`, closed after the test."""
    from purgatory.testing.manual_purgatory import ManualPurgatory  # noqa: PLC0415  # at first use

    with ManualPurgatory() as made:
        yield made


@pytest.fixture
def service_world() -> "Iterator[ServiceWorld]":
    """A `ServiceWorld` of seed 0, closed after the test; skips it without the extra."""
    pytest.importorskip("apsw", reason="needs the extra: timer-purgatory[simulation]")
    from purgatory.testing.service_world import ServiceWorld  # noqa: PLC0415  # not all have it

    with ServiceWorld() as made:
        yield made
