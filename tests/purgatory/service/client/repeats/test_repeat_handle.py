"""Handles of repeats, at a real server."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

import purgatory
from purgatory.service import AsyncClient, Worker
from purgatory.service.client.repeats import repeat_handle
from purgatory.service.client.repeats.repeat_handle import RepeatFacts
from purgatory.service.job_messages import Repeat, RepeatState
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def client(server, connect):
    """A client of the name "shop"."""
    return connect(server, name="shop")


@pytest.fixture
def fresh(monkeypatch):
    """Have handles ask the server each time."""
    monkeypatch.setattr(repeat_handle, "_FRESH_S", -1.0)


def test_its_next_time_is_that_of_the_preview(client):
    """In the zone of the repeat."""
    now = datetime.now(UTC)
    repeat = client.repeat("r", cron="30 2 * * *", tz="America/New_York")
    assert repeat.next in purgatory.next_times("30 2 * * *", "America/New_York", 2, now)
    assert repeat.next.tzinfo.key == "America/New_York"
    assert (repeat.last, repeat.paused, repeat.skipped, repeat.kind) == (None, False, 0, "")
    assert repr(repeat) == "<RepeatHandle 'r' of 'shop'>"


def test_jobs_come_at_intervals(client, server):
    """With the kind and the payload; the handle shows the last one."""
    found, enough = [], threading.Event()

    def note(job):
        found.append((job.id, job.payload))
        if len(found) == 3:
            enough.set()

    worker = Worker(server.address, name="shop")
    worker.on("tick")(note)
    now = datetime.now(UTC)
    begun = now.replace(microsecond=now.microsecond // 1000 * 1000)  # as the server's clock
    with worker:
        repeat = client.repeat("r", every="100ms", kind="tick", payload=[1], overlap="allow")
        assert repeat.next - begun >= timedelta(milliseconds=100)
        assert enough.wait(HANG)
        repeat._read_s -= repeat_handle._FRESH_S  # as if it had been read before
        assert repeat.last >= begun + timedelta(milliseconds=300)
    assert all(payload == [1] for _, payload in found)
    assert all(job_id.startswith("r@") for job_id, _ in found)
    assert len({job_id for job_id, _ in found}) == len(found)


def test_pause_and_resume(client, fresh):
    """By any handle; the others see it."""
    first, second = client.repeat("r", every=60), client.repeats()[0]
    assert first.pause()
    assert (second.paused, second.next) == (True, None)
    assert second.resume()
    assert not first.paused
    assert first.next > datetime.now(UTC)


def test_run(client, fresh):
    """A job more, now; not while one has not ended."""
    repeat = client.repeat("r", every=60, kind="nobody")
    assert repeat.run()
    assert repeat.last <= datetime.now(UTC)
    assert not repeat.run()
    assert repeat.skipped == 1
    [job] = client.jobs(tag="r")
    assert job.client == "shop"


def test_delete(client, fresh):
    """What the handle shows stays; there is nothing to change any more."""
    repeat = client.repeat("r", every=60)
    following = repeat.next
    assert repeat.delete()
    assert client.repeats() == []
    assert repeat.next == following
    assert not repeat.delete()
    assert not repeat.pause()
    assert not repeat.run()


def test_it_asks_only_when_it_knows_nothing_fresh(client, monkeypatch):
    """A loop over its attributes sends no request for each."""
    repeat = client.repeat("r", every=60)
    monkeypatch.setattr(repeat, "_owner", None)
    assert (repeat.paused, repeat.skipped, repeat.last) == (False, 0, None)
    monkeypatch.setattr(repeat_handle, "_FRESH_S", -1.0)
    with pytest.raises(AttributeError):
        _ = repeat.paused


def test_settings():
    """As they were declared; times in seconds."""
    repeat = Repeat(
        *("r", "5 4 * * *", None, "Asia/Tokyo", "mail", {"a": [1]}),
        *("allow", "all", 1500),
    )
    facts = RepeatFacts(RepeatState(repeat, "shop"))
    assert (facts.name, facts.client, facts.kind, facts.payload) == (
        "r",
        "shop",
        "mail",
        {"a": [1]},
    )
    assert (facts.cron, facts.every, facts.tz) == ("5 4 * * *", None, "Asia/Tokyo")
    assert (facts.overlap, facts.missed, facts.jitter) == ("allow", "all", 1.5)
    assert RepeatFacts(RepeatState(Repeat("r", every_ms=250), "c")).every == 0.25


def test_moments_are_aware_and_of_the_zone():
    """One that this machine does not know is shown in UTC."""
    facts = RepeatFacts(RepeatState(Repeat("r", "* * * * *", tz="Asia/Tokyo"), "c"))
    moment = facts._moment(1_000_000_000_250)
    assert moment == datetime(2001, 9, 9, 1, 46, 40, 250_000, UTC)
    assert moment.utcoffset() == timedelta(hours=9)
    assert facts._moment(None) is None
    unknown = RepeatFacts(RepeatState(Repeat("r", "* * * * *", tz="Mars/Base"), "c"))
    assert unknown._moment(1_000_000_000_250).utcoffset() == timedelta(0)


def test_the_same_methods_are_awaited(server):
    """What a handle shows is what the server has told last."""

    async def main():
        async with AsyncClient(server.address, name="shop", timeout=HANG) as client:
            repeat = await client.repeat("r", every=60, kind="nobody", payload={"a": 1})
            assert (repeat.name, repeat.kind, repeat.payload) == ("r", "nobody", {"a": 1})
            assert (repeat.last, repeat.paused, repeat.skipped) == (None, False, 0)
            following = repeat.next
            assert await repeat.pause()
            assert (repeat.paused, repeat.next) == (True, None)
            [other] = await client.repeats()
            assert other.paused
            assert await other.resume()
            assert repeat.paused
            assert await repeat.refresh()
            assert (repeat.paused, repeat.next) == (False, following)
            assert await repeat.run()
            assert repeat.last is not None
            assert not await repeat.run()
            assert repeat.skipped == 1
            assert await repeat.delete()
            assert not await repeat.refresh()
            assert not await repeat.delete()
            assert list(await client.repeats()) == []
            assert repr(repeat) == "<AsyncRepeatHandle 'r' of 'shop'>"

    asyncio.run(main())
