"""The calls about repeats, at a real server."""

from datetime import timedelta

import pytest

from purgatory.service import TooManyRepeats
from purgatory.service.server.repeats import repeat_requests
from tests.testing.odd_numbers import HALVES


@pytest.fixture
def client(server, connect):
    """A client of the name "shop"."""
    return connect(server, name="shop")


def test_the_answer_has_the_repeat(client):
    """As it was declared."""
    state = client.repeat_later(
        *("nightly",),
        cron="30 2 * * *",
        tz="Europe/Berlin",
        kind="report",
        payload={"to": "ada"},
        overlap="allow",
        missed="all",
        jitter="1m",
    ).result(client.timeout)
    repeat = state.repeat
    assert (repeat.name, repeat.cron, repeat.tz) == ("nightly", "30 2 * * *", "Europe/Berlin")
    assert (repeat.kind, repeat.overlap, repeat.missed) == ("report", "allow", "all")
    assert (repeat.every_ms, repeat.jitter_ms, state.client) == (None, 60_000, "shop")


def test_answers_have_decoded_payloads(client):
    """Each of them, as those about jobs have."""
    given = {"to": ["ada"]}
    state = client.repeat_later("r", every=60, payload=given).result(client.timeout)
    client.repeat("empty", every=60)
    changed = client.change_repeat("r", "pause").state
    page = {each.repeat.name: each.repeat.payload for each in client.repeats_page().repeats}
    assert (state.repeat.payload, changed.repeat.payload) == (given, given)
    assert page == {"empty": None, "r": given}
    assert client.change_repeat("unknown", "pause").state is None


@pytest.mark.parametrize("every", ["0.5s", "500ms", timedelta(seconds=0.5), *HALVES])
def test_intervals_are_durations(client, every):
    """Numbers, timedeltas and texts."""
    assert client.repeat("r", every=every).every == 0.5
    assert client.repeat("r", every=every, jitter=every).jitter == 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, TypeError, "neither cron nor every is given; expected one of the two"),
        ({"cron": "* * * * *", "every": 5}, TypeError, "cron and every are both given"),
        ({"cron": "61 * * * *"}, ValueError, "cron is '61 [*] [*] [*] [*]'"),
        ({"cron": 5}, TypeError, "cron is 5"),
        ({"cron": "0 0 30 2 *"}, ValueError, "cron is '0 0 30 2 [*]'"),
        ({"cron": "* * * * *", "tz": "Mars/Base"}, ValueError, "tz is 'Mars/Base'"),
        ({"every": 5, "tz": "bogus"}, ValueError, "tz is 'bogus', without cron"),
        ({"every": 5, "tz": None}, ValueError, "tz is None, without cron"),
        ({"every": 0}, ValueError, "every is 0; expected an interval above 0"),
        ({"every": -1}, ValueError, "every is -1"),
        ({"every": "soon"}, ValueError, "'soon' is not a valid duration"),
        ({"every": 5, "jitter": -1}, ValueError, "jitter is -1"),
        ({"every": 5, "overlap": "no"}, ValueError, "overlap is 'no'; expected one of skip, allow"),
        (
            {"every": 5, "missed": "no"},
            ValueError,
            "missed is 'no'; expected one of one, none, all",
        ),
        ({"every": 5, "kind": 5}, TypeError, "kind is 5"),
        ({"every": 5, "name": ""}, ValueError, "name is empty"),
        ({"every": 5, "name": 5}, TypeError, "name is 5"),
        ({"every": 5, "payload": object()}, TypeError, "object"),
    ],
)
def test_bad_arguments_are_refused_at_once(client, arguments, error, words):
    """In the caller, with the value and what was expected."""
    given = {"name": "r", **arguments}
    with pytest.raises(error, match=words):
        client.repeat_later(given.pop("name"), **given)


def test_what_the_server_refuses(client, monkeypatch):
    """Is an error of its own."""
    monkeypatch.setattr(repeat_requests, "MOST_OF_A_CLIENT", 0)
    with pytest.raises(TooManyRepeats, match="client 'shop' has 0 repeats"):
        client.repeat("r", every=5)


def test_changes(client, connect, server):
    """Of the own repeats, and of another client's."""
    client.repeat("r", every=60)
    assert client.change_repeat("r", "pause").state.paused
    other = connect(server, name="other")
    assert not other.change_repeat("r", "resume").done
    assert not other.change_repeat("r", "resume", client="shop").state.paused
    with pytest.raises(ValueError, match="change is 'stop'; expected one of pause, resume"):
        client.change_repeat("r", "stop")


def test_pages(client, connect, server):
    """Of all clients, or of one; of a name; the next is asked for by where one has ended."""
    other = connect(server, name="other")
    for name in "abc":
        client.repeat(name, every=60)
    other.repeat("b", every=60)

    def keys(**options):
        page = client.repeats_page(**options)
        return [(one.client, one.repeat.name) for one in page.repeats], page.after

    assert keys(limit=2) == ([("other", "b"), ("shop", "a")], ("shop", "a"))
    assert keys(cursor=("shop", "a")) == ([("shop", "b"), ("shop", "c")], None)
    assert keys(client="other") == ([("other", "b")], None)
    assert keys(name="b")[0] == [("other", "b"), ("shop", "b")]
    assert [one.name for one in client.repeats()] == ["a", "b", "c"]
    with pytest.raises(TypeError, match="cursor is 5"):
        client.repeats_page(cursor=(5, "a"))
    for bad in ("ab", ("shop",), ("shop", "a", "b"), {"shop", "a"}):
        with pytest.raises(TypeError, match=r"cursor is .*; expected the `after` of a page"):
            client.repeats_page(cursor=bad)


def test_all_are_read_page_by_page(client, monkeypatch):
    """However many there are."""
    monkeypatch.setattr(repeat_requests, "MAX_LISTED", 2)
    for number in range(5):
        client.repeat(f"r{number}", every=60)
    assert [one.name for one in client.repeats()] == [f"r{number}" for number in range(5)]
