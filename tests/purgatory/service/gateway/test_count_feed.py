"""CountFeed: streams share readings; kinds are bounded."""

import asyncio
import functools

import msgspec
import pytest

from purgatory.service.errors import RequestTimeout, TooManyReads
from purgatory.service.gateway import count_feed
from purgatory.service.gateway.count_feed import CountFeed, counts_of
from purgatory.service.gateway.messages import JobCountReport, KindCount
from purgatory.service.job_messages import KindOverview, Overview


class Counter:
    """A client whose answers a test gives: counts, or errors."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def stats(self):
        """See `AsyncClient`."""
        return {"ready": 1}

    async def overview(self, *, client):
        """See `AsyncClient`; the last answer goes on."""
        self.asked.append(client)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def told(count):
    """Return what is told of so many ready jobs."""
    return counts_of({("a", "ready"): count})


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No pause between readings."""
    monkeypatch.setattr(count_feed, "PERIOD_S", 0.0)
    monkeypatch.setattr(count_feed, "_SHARE", 0)


def test_what_is_told():
    """The first counts, and those that differ from the last; None for others."""

    async def main():
        one, two = (Overview(1, [KindOverview("a", (0, n, *[0] * 5), 0, 1)], {}) for n in (1, 2))
        late = RequestTimeout("late")
        feed = CountFeed(Counter(late, one, one, late, late, one, two), "shop")
        stream = feed.read(sees_all=True)
        found = [await anext(stream) for _ in range(7)]
        await stream.aclose()
        lost = msgspec.structs.replace(told(1), troubles=["Not ready: late"])
        assert found == [None, told(1), None, lost, None, told(1), told(2)]

    asyncio.run(main())


def test_streams_share_a_reading(monkeypatch):
    """The server is asked once in a period, for each sort of token."""
    monkeypatch.setattr(count_feed, "PERIOD_S", 3600.0)

    async def main():
        counter = Counter(Overview(1, [], {}))
        feed = CountFeed(counter, "shop")
        streams = [feed.read(sees_all=sees_all) for sees_all in (True, False) * 5]
        await asyncio.gather(*[anext(stream) for stream in streams])
        assert sorted(counter.asked, key=str) == [None, "shop"]
        for stream in streams:
            await stream.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "times", "pause_s"),
    [
        (Overview(1, [], {}), [91.0, 100.0, 103.0, 103.0, 129.0, 130.0], 27.0),
        (RequestTimeout("late"), [91.0, 100.0, 100.5, 100.9, 101.0], 0.5),
    ],
)
def test_a_slow_reading_is_followed_by_a_long_pause(monkeypatch, answer, times, pause_s):
    """So counting takes a part of the server's time only; a wait for a server takes none."""
    monkeypatch.setattr(count_feed, "PERIOD_S", 1.0)
    monkeypatch.setattr(count_feed, "_SHARE", 10)
    moments = iter(times)
    monkeypatch.setattr(count_feed, "monotonic", lambda: next(moments))

    async def main():
        counter = Counter(answer)
        if isinstance(answer, Exception):
            counter.stats = functools.partial(counter.overview, client=None)
        reading = count_feed._Reading(counter, "shop")
        assert (await reading.result())[1] == pause_s
        assert [reading.is_over(), reading.is_over()] == [False, True]

    asyncio.run(main())


def test_bounds(monkeypatch):
    """So many streams at a time; a stream that has ended makes room."""
    monkeypatch.setattr(count_feed, "MOST_STREAMS", 1)

    async def main():
        feed = CountFeed(Counter(Overview(1, [], {})), "shop")
        first, second = feed.read(sees_all=True), feed.read(sees_all=True)
        await anext(first)
        with pytest.raises(TooManyReads, match="1 streams"):
            await anext(second)
        await first.aclose()
        third = feed.read(sees_all=True)
        assert await anext(third) == JobCountReport({}, [], {})
        feed.close()
        assert [each async for each in third] == []

    asyncio.run(main())


def test_kinds_that_the_server_has_counted_together():
    """They are no kind, however many jobs they have; a kind of that name among few is one."""
    counts = {(f"kind-{n:03}", "ready"): n + 1 for n in range(100)} | {("other", "ready"): 1000}
    found = counts_of(counts)
    assert len(found.kinds) == 100
    assert found.others == {"ready": 1000}
    assert counts_of({("other", "ready"): 2}).kinds == [KindCount("other", {"ready": 2})]


def test_the_busiest_kinds():
    """They are first, whatever the states of their jobs."""
    counts = {(f"kind-{n}", "ready"): n + 1 for n in range(3)} | {("kind-0", "dead"): 5}
    found = counts_of(counts)
    assert found.states == {"ready": 1 + 2 + 3, "dead": 5}
    assert [each.kind for each in found.kinds] == ["kind-0", "kind-2", "kind-1"]
    assert found.kinds[0] == KindCount("kind-0", {"ready": 1, "dead": 5})
    assert found.others == {}
