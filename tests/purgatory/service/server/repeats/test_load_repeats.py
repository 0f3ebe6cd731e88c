"""Repeats come back at the start."""

import pytest

from purgatory.service.server.repeats import load_repeats
from tests.testing.repeat_server import HOUR, SECOND, at


def test_all_that_lasts_comes_back(server):
    """Times, counts and settings; deleted ones do not."""
    server.repeat("a", every_ms=SECOND, payload=[1])
    server.repeat("b", cron="0 12 * * *", tz="Asia/Tokyo")
    server.repeat("d", every_ms=SECOND)
    server.sleep(2 * SECOND + 5)
    server.change("pause", "b")
    server.change("delete", "d")
    before = dict(server.state.repeats.by_key)
    size = server.state.repeats.bytes
    server.crash()
    after = server.state.repeats.by_key
    assert [one.state() for one in after.values()] == [one.state() for one in before.values()]
    assert after["c", "a"].runs == before["c", "a"].runs != ()
    assert server.state.repeats.bytes == size


def test_runs_of_before_are_found(server):
    """Those that are due, leased, given up; not those that have ended."""
    server.repeat(every_ms=SECOND, overlap="allow")
    server.sleep(3 * SECOND + 5)
    server.finish(server.begun.pop())
    server.crash()
    assert [run[-3:] for run in server.state.repeats.by_key["c", "r"].runs] == ["41Z", "42Z"]


def test_a_zone_that_is_not_known_any_more(server, monkeypatch, caplog):
    """The server starts, and the log names the repeat; with the zone it runs again."""
    server.repeat(cron="0 12 * * *", tz="Asia/Tokyo")

    def unknown(cron, tz):
        raise ValueError("tz is 'Asia/Tokyo'; expected the name of a time zone")

    with monkeypatch.context() as patched:
        patched.setattr(load_repeats, "CronExpression", unknown)
        server.crash()
    assert "repeat 'r' of 'c' does not run: tz is 'Asia/Tokyo'" in caplog.text
    assert server.state_of().next_ms is None
    server.sleep(SECOND)
    server.crash()
    assert server.state_of().next_ms == at("2001-09-09T03:00")


@pytest.mark.parametrize(("by_ms", "runs_again"), [(-3 * HOUR + 1, False), (-3 * HOUR, True)])
def test_a_clock_that_was_set_back(make_server, by_ms, runs_again):
    """By less than three hours: no time of the calendar comes again."""
    server = make_server("2026-11-26T12:00")
    server.repeat(cron="0 13 * * *")
    server.sleep(HOUR + SECOND, finishes=True)
    server.time.wall_ms = by_ms
    server.crash()
    expected = at("2026-11-26T13:00") if runs_again else at("2026-11-27T13:00")
    assert server.state_of().next_ms == expected
