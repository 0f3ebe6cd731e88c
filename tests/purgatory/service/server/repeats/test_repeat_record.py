"""What a server knows of a repeat."""

from datetime import UTC, datetime

from msgspec import Raw
from msgspec.msgpack import decode
from msgspec.structs import replace

from purgatory.cron.expression import CronExpression
from purgatory.service.encoding import encode
from purgatory.service.job_messages import Repeat
from purgatory.service.protocol import NOTHING
from purgatory.service.server.repeats.repeat_record import (
    RepeatRecord,
    first_time,
    has_same_rhythm,
    name_of_run,
    run_id,
)
from tests.testing.repeat_server import at


def record(next_ms=0, **settings):
    """Make a record."""
    settings.setdefault("name", "r")
    cron = CronExpression(settings["cron"]) if "cron" in settings else None
    return RepeatRecord("c", Repeat(**settings), cron, next_ms)


def test_intervals_keep_their_rhythm():
    """However long the server has not looked."""
    one = record(1000, every_ms=300)
    assert [one.time_after(ms) for ms in (0, 999, 1000, 1299, 1300, 10**9)] == [
        1300,
        1300,
        1300,
        1300,
        1600,
        10**9 + 300,
    ]


def test_times_of_the_calendar():
    """After a moment, to the millisecond."""
    one = record(cron="0 12 * * *")
    noon = at("2026-11-26T12:00")
    assert one.time_after(noon - 1) == noon
    assert one.time_after(noon) == at("2026-11-27T12:00")
    assert one.skip(noon).skipped == 1


def test_the_calendar_ends():
    """There is no next time then, and nothing is due."""
    last = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)
    assert first_time(CronExpression("0 0 * * *"), last) == 0
    assert record(0, cron="0 0 * * *").state().next_ms is None


def test_a_paused_repeat_has_no_next_time():
    """Clients are told of none."""
    one = record(1000, every_ms=300)
    assert one.state().next_ms == 1000
    assert one._replace(paused=True).state().next_ms is None


def test_of_what_the_jitter_depends():
    """Of client, name and time, as docs/howto/nightly-report.md says."""
    settings = Repeat("r", every_ms=1000, jitter_ms=10**6)
    makers = [
        RepeatRecord("c", settings, None, 0),
        RepeatRecord("another", settings, None, 0),
        RepeatRecord("c", replace(settings, name="s"), None, 0),
        RepeatRecord("c", settings, None, 1),
    ]
    assert len({one.due_ms - one.next_ms for one in makers}) == 4
    later = RepeatRecord("c", replace(settings, kind="k", every_ms=5), None, 0)
    assert later.due_ms == makers[0].due_ms


def test_the_jitter_is_within_its_bound_and_stays():
    """It differs from time to time and from repeat to repeat."""
    times = [record(ms, every_ms=1000, jitter_ms=100) for ms in range(0, 100_000, 1000)]
    late = [one.due_ms - one.next_ms for one in times]
    assert min(late) >= 0
    assert max(late) <= 100
    assert len(set(late)) > 30
    again = [one._replace(last_ms=7).due_ms - one.next_ms for one in times]
    assert late == again
    others = [one._replace(client="d").due_ms - one.next_ms for one in times]
    assert late != others


def test_the_same_rhythm():
    """The same interval; or the same expression in the same zone."""
    every, cron = Repeat("r", every_ms=5), Repeat("r", cron="* * * * *")
    assert has_same_rhythm(every, Repeat("r", every_ms=5, tz="Asia/Tokyo", missed="all"))
    assert not has_same_rhythm(every, Repeat("r", every_ms=6))
    assert not has_same_rhythm(every, cron)
    assert not has_same_rhythm(cron, every)
    assert has_same_rhythm(cron, Repeat("r", cron="* * * * *", jitter_ms=5))
    assert not has_same_rhythm(cron, Repeat("r", cron="* * * * *", tz="Asia/Tokyo"))


def test_ids_of_runs():
    """Name and time in UTC, with milliseconds where there are some."""
    assert run_id("a@b", at("2026-11-27T02:30")) == "a@b@2026-11-27T02:30:00Z"
    assert run_id("r", at("2026-11-27T02:30") + 5) == "r@2026-11-27T02:30:00.005Z"
    assert name_of_run("a@b@2026-11-27T02:30:00Z#2") == "a@b"
    assert name_of_run("some job") == ""


def test_a_row_has_all_that_lasts():
    """Settings and payload, and the interval by which its time moves with the clock."""
    one = record(1000, every_ms=300, payload=Raw(encode({"a": 1})), kind="k")
    row = one._replace(last_ms=700, skipped=3, paused=True).row()
    assert row[:7] == ("c", "r", 1000, 700, 1, 3, 300)
    assert decode(row.settings, type=Repeat) == one.settings
    assert record(cron="* * * * *").row().every_ms == 0


def test_its_memory_grows_with_its_payload():
    """And with its texts."""
    small = record(every_ms=1, payload=Raw(NOTHING))
    large = record(every_ms=1, payload=Raw(bytes(500)), name="r" * 100)
    assert large.bytes == small.bytes + 499 + 99
