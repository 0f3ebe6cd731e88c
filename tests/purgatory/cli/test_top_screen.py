"""The screen of `purgatory top`."""

import pytest

from purgatory.cli.top_screen import Top, blocks, bytes_shown

FIGURES = dict.fromkeys(
    ("pending", "unacknowledged", "connections", "messages", "submitted", "completed",
     "expired", "cancelled", "refused", "commits", "commit_seconds", "commit_failures",
     "store_backlog", "store_bytes", "uptime_seconds"), 0.0)  # fmt: skip


def test_rates():
    """A rate is the change since the last sample by the seconds between, never negative."""
    top = Top("tcp://x")
    top.add(FIGURES | {"uptime_seconds": 10, "expired": 5})
    top.add(FIGURES | {"uptime_seconds": 12, "expired": 45})
    assert top._rates["expired"][-1] == 20
    top.add(FIGURES | {"uptime_seconds": 1, "expired": 1})  # started again
    top.add(FIGURES | {"uptime_seconds": 2, "expired": 1})
    assert top._rates["expired"][-1] == 0
    assert list(top._rates["expired"])[-3:] == [0, 20, 0]


def test_blocks():
    """The highest value is a full block; the lowest is not empty."""
    assert blocks([0, 1, 4, 8]) == "▁▁▄█"
    assert blocks([0, 0]) == "▁▁"
    assert blocks([]) == ""


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (300 * 2**20, "300 MiB"),
     (2**60, "1048576 TiB")],
)  # fmt: skip
def test_bytes(count, shown):
    """In the unit that a person would choose."""
    assert bytes_shown(count) == shown
