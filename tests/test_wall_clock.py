"""Clients and workers read no wall clock: theirs may be wrong by any amount, and be set at will."""

import re

import pytest

from scripts.draw_architecture import ROOT

SERVICE = ROOT / "purgatory" / "service"
READS = re.compile(
    r"\btime\.(time|time_ns|ctime|gmtime|localtime|strftime)\b|\bfrom time\b"
    r"|\bdatetime\.(now|today|utcnow)\b"
)
FILES = [path for room in ("client", "worker") for path in sorted((SERVICE / room).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SERVICE)))
def test_no_wall_clock(path):
    """All times that they send are durations, which the server counts by its own clock."""
    assert not READS.findall(path.read_text(encoding="utf-8"))


def test_the_server_reads_it():
    """The pattern finds what it looks for."""
    assert READS.search((SERVICE / "server" / "clock.py").read_text(encoding="utf-8"))
