"""Lists and queries of operations, at a server and at one that is stepped by hand."""

import asyncio

import pytest

from purgatory.service import AsyncClient
from purgatory.service.encoding import unpack
from purgatory.service.job_messages import JobFilter, ListJobs
from purgatory.service.protocol import Failure, Query, ReadOperations, Submit
from purgatory.service.server.reads import status_answers
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import StepServer, job, operation


@pytest.fixture
def shop(server, connect):
    """A client with operations of two kinds, some of which have ended."""
    client = connect(server, name="shop")
    for n in range(700):
        client.submit_later(f"key {n % 7}", timeout=HANG, kind=f"kind {n % 2}", op_id=f"o{n}",
                            payload=n)  # fmt: skip
    client.flush()
    assert client.complete("key 3", "done") == 100
    client.cancel("o0")
    return client


#: Kind, key, client and state of a request that matches all.
ANY = [None] * 4


def ids(found):
    return [one.op_id for one in found]


def test_pages(shop, server, connect):
    """All come once, in order of submission, with state and payload, also to another client."""
    everything = [f"o{n}" for n in range(700)]
    found = list(shop.list())
    assert ids(found) == everything
    assert (found[3].state, found[3].result, found[3].payload) == ("completed", "done", 3)
    assert (found[0].state, found[1].state) == ("cancelled", "pending")
    assert ids(connect(server).list(limit=520)) == everything[:520]
    pages, cursor = [], 0
    while cursor is not None:
        page = shop.list_page(cursor=cursor, limit=90)
        pages += ids(page.states)
        cursor = page.after
    assert pages == everything


@pytest.mark.parametrize("few", [0, 5000])
def test_filters(shop, monkeypatch, few):
    """By kind, key, client and state, also several of them; whether few wait for a key or many."""
    monkeypatch.setattr(status_answers, "FEW_WATCHERS", few)
    assert ids(shop.list(kind="kind 1")) == [f"o{n}" for n in range(1, 700, 2)]
    assert ids(shop.list(state="completed")) == [f"o{n}" for n in range(3, 700, 7)]
    assert ids(shop.list(state="cancelled", kind="kind 0")) == ["o0"]
    assert ids(shop.list(key="key 1")) == [f"o{n}" for n in range(1, 700, 7)]
    assert ids(shop.list(key="key 1", kind="kind 0", limit=2)) == ["o8", "o22"]
    assert ids(shop.list(key="key 3")) == []
    assert ids(shop.list(client="other")) == ids(shop.list(kind="none")) == []
    with pytest.raises(ValueError, match="limit is 0"):
        list(shop.list(limit=0))


@pytest.mark.parametrize("few", [0, 5000])
def test_the_newest_first(shop, monkeypatch, few):
    """The same, the other way round, page by page."""
    monkeypatch.setattr(status_answers, "FEW_WATCHERS", few)
    for wanted in ({}, {"kind": "kind 1"}, {"state": "completed"}, {"key": "key 1"}):
        newest = ids(shop.list(order="newest", **wanted))
        assert newest == ids(shop.list(**wanted))[::-1]
        assert ids(shop.list(order="newest", limit=2, **wanted)) == newest[:2]
        pages, cursor = [], 0
        while cursor is not None:
            page = shop.list_page(order="newest", cursor=cursor, limit=33, **wanted)
            pages += ids(page.states)
            cursor = page.after
        assert pages == newest
    with pytest.raises(ValueError, match="order is 'due'; expected one of oldest, newest"):
        shop.list_page(order="due")


@pytest.mark.parametrize("order", ["oldest", "newest"])
def test_without_jobs(shop, order):
    """They are left out, also in a state that only jobs have."""
    for n in range(300):
        shop.schedule_later(3600, job_id=f"j{n}")
    shop.flush()
    waits = [each for each in ids(shop.list(order=order)) if each.startswith("o")]
    assert len(waits) == 700
    assert ids(shop.list(order=order, with_jobs=False)) == waits
    assert ids(shop.list(order=order, with_jobs=False, state="failed")) == []
    assert ids(shop.list(order=order, with_jobs=False, client="other")) == []


def test_a_server_with_jobs_alone_looks_at_none(step_server, monkeypatch):
    """The counts tell that no operation matches."""
    step_server.submit(job("o"))
    monkeypatch.setattr(step_server.store, "some_operations", None)
    answer = step_server.ask(ReadOperations, 0, 100, *ANY, "oldest", False)
    assert (answer.states, answer.after) == ([], None)


def test_an_unknown_order_is_refused(step_server):
    """With what was expected."""
    answer = step_server.ask(ReadOperations, 0, 100, *ANY, "due")
    assert (type(answer), answer.code) == (Failure, "malformed")
    assert "order is 'due'; expected one of ('oldest', 'newest')" in answer.message


def test_async(shop, server):
    """The same from an event loop, page by page."""

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as client:
            found = [one.op_id async for one in client.list(kind="kind 1", limit=320)]
            assert found == ids(shop.list(kind="kind 1", limit=320))
            assert len([one async for one in client.list()]) == 700
            page = await client.list_page(cursor=0, limit=90)
            assert (ids(page.states), page.after) == (ids(shop.list(limit=90)), 90)
            with pytest.raises(ValueError, match="limit is 0"):
                await anext(client.list(limit=0))

    asyncio.run(main())


def test_a_request_looks_at_a_bounded_number(step_server, monkeypatch):
    """Between its portions others are served, and one that finds nothing is answered soon."""
    monkeypatch.setattr(status_answers, "BATCHES", 1)
    monkeypatch.setattr(status_answers, "MAX_PORTIONS", 3)
    for start in range(0, 1280, 128):
        step_server.submit(*[operation(f"o{n}") for n in range(start, start + 128)])
    step_server.store_loop.read_seconds = 0.0
    step_server.post(ReadOperations, 0, 100, "none", client="other")
    step_server.post(Query, ["o1"])
    step_server.post(Submit, [operation("meanwhile")])
    answers = [step_server.step(once=True)[0] for _ in range(6)]
    order = [type(one).__name__ for some in answers for one in some]
    assert order.index("Submitted") < order.index("Operations")
    [answer] = [one for some in answers for one in some if type(one).__name__ == "Operations"]
    assert (answer.states, answer.after) == ([], 384)
    assert isinstance(step_server, StepServer)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    ("request_type", "args"),
    [
        (ReadOperations, (0, 100, None, None, None, None, "oldest", False)),
        (ReadOperations, (0, 100, None, "k", None, None, "newest")),
        (ListJobs, (JobFilter(), "due", 100)),
        (ListJobs, (JobFilter(), "newest", 100)),
    ],
)
def test_a_list_reads_few_values_at_once(step_server, monkeypatch, request_type, args, ends):
    """Values may be large: other requests come between, and few are in memory."""
    server, read = step_server, []
    server.submit(*(operation(f"o{n}", "k", payload=n, timeout_ms=10**6) for n in range(100)))
    server.submit(*(job(f"j{n}", "l", payload=n, timeout_ms=10**6) for n in range(100)))
    if ends:
        server.complete("l")
        if args[3:4] != ("k",):
            server.complete("k")
    for name in ("by_numbers", "outcomes_by_seqs"):
        call = getattr(server.store, name)
        monkeypatch.setattr(
            server.store, name, lambda found, call=call: read.append(len(found)) or call(found)
        )
    answer = server.ask(request_type, *args)
    found = answer.jobs if request_type is ListJobs else answer.states
    assert sorted(unpack(one.payload) for one in found) == list(range(100))
    assert max(read, default=0) <= status_answers.PORTION


def test_large_payloads_are_left_out(step_server):
    """Of an answer they take a part only; how many bytes is said."""
    step_server.submit(*[operation(f"o{n}", payload="x" * 900) for n in range(300)])
    answer = step_server.ask(ReadOperations, 0, 300)
    left_out = [one.left_out for one in answer.states]
    assert left_out[0] == 0
    assert left_out[-1] > 900


def values_of(status):
    return unpack(status.result), unpack(status.payload), status.left_out


def test_an_answer_that_is_too_large_is_refused(tmp_path):
    """But for one id: there is an answer to that."""
    server = StepServer(tmp_path / "a.db", message_bytes=5000)
    keys = [f"{n} {'x' * 900}" for n in range(8)]
    server.submit(operation("a", *keys))
    assert server.query("a").keys == keys
    answer = server.ask(Query, ["a", "b"])
    assert (type(answer), answer.code) == (Failure, "too-large")
    assert "more than 5000 bytes" in answer.message
    server.store.close()


def test_a_query_has_result_and_payload(step_server):
    """The payload of one that waits, too."""
    server = step_server
    server.submit(operation("a", payload="for a"), operation("b", payload="for b"), operation("c"))
    server.complete("b's key", {"sum": 12})
    server.fail("c's key", "Declined", "no funds")
    states = server.ask(Query, ["a", "b", "c", "?"]).states
    assert {state.op_id: values_of(state) for state in states} == {
        "a": (None, "for a", 0),
        "b": ({"sum": 12}, "for b", 0),
        "c": (["Declined", "no funds"], None, 0),
        "?": (None, None, 0),
    }


def test_values_that_make_an_answer_too_large_are_left_out(tmp_path):
    """States are answered all the same; about one id alone all is said."""
    server = StepServer(tmp_path / "a.db", message_bytes=64_000)
    ids = [f"o{n}" for n in range(100)]
    server.submit(*(operation(op_id, "k", payload="x" * 496) for op_id in ids))  # 500 bytes
    states = server.ask(Query, ids).states
    assert [state.state for state in states] == ["pending"] * 100
    assert [state.left_out for state in states] == [0] * 16 + [500] * 84
    assert [unpack(state.payload) for state in states[15:17]] == ["x" * 496, None]
    assert values_of(server.query("o99")) == (None, "x" * 496, 0)
    assert {values_of(state)[2] for state in server.ask(Query, ["o1"] * 100).states} == {500}
    server.store.close()
