"""`purgatory repeats`."""

import json
from datetime import datetime

import pytest

from purgatory import next_times
from purgatory.service import Client
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")

CRON = "30 2 * * *"
ZONE = "Europe/Berlin"


@pytest.fixture
def shop(at, service):
    """A client of the name "shop"."""
    with Client(service.server.address, name="shop", timeout=HANG) as client:
        yield client


def test_set_and_show(run, shop):
    """It is declared for the workers of --name, and shown with all settings."""
    code, out, _ = run(
        *("repeats", "set", "nightly", "--cron", CRON, "--tz", ZONE, "--kind", "report"),
        *("--payload", '{"to": "ada"}', "--missed", "all", "--overlap", "allow", "--jitter", "1m"),
        *("--name", "shop"),
    )
    assert code == 0
    for words in ("nightly", "shop", f"{CRON} ({ZONE})", "report", '{"to": "ada"}', "60 s"):
        assert words in out
    [repeat] = shop.repeats()
    assert (repeat.cron, repeat.tz, repeat.missed, repeat.jitter) == (CRON, ZONE, "all", 60.0)
    code, shown, _ = run("repeats", "show", "nightly")
    assert (code, shown) == (0, out)
    facts = json.loads(run("repeats", "show", "nightly", "--json")[1])
    assert facts["payload"] == {"to": "ada"}
    assert datetime.fromisoformat(facts["next"]) == repeat.next
    assert (facts["last"], facts["paused"], facts["every"]) == (None, False, None)


def test_long_intervals(run, shop):
    """They are shown in all digits."""
    shop.repeat("r", every="2w", jitter=86_399.123)
    out = run("repeats", "show", "r")[1]
    for words in ("every 1209600 s", "86399.123 s"):
        assert words in out


def test_list(run, shop, service):
    """Of all clients, or of one."""
    with Client(service.server.address, name="other", timeout=HANG) as other:
        other.repeat("poll", every=90)
    shop.repeat("nightly", cron=CRON, tz=ZONE)
    code, out, _ = run("repeats", "list")
    assert code == 0
    for words in ("nightly", "poll", "every 90 s", "2 repeats"):
        assert words in out
    assert "1 repeat\n" in run("repeats", "list", "--client", "shop")[1]
    found = [json.loads(line) for line in run("repeats", "list", "--json")[1].splitlines()]
    assert [(one["client"], one["name"]) for one in found] == [
        ("other", "poll"),
        ("shop", "nightly"),
    ]


def test_changes(run, shop):
    """Each says what it did; what is not there is bad news."""
    shop.repeat("r", every=60, kind="nobody")
    assert run("repeats", "pause", "r") == (0, "r: paused\n", "")
    assert "paused" in run("repeats", "list")[1]
    assert run("repeats", "resume", "r", "x") == (1, "r: resumed\n", "x: there is no such repeat\n")
    assert run("repeats", "run", "r")[:2] == (0, "r: runs now\n")
    code, out, _ = run("repeats", "run", "r")
    assert (code, "has not ended" in out) == (1, True)
    assert run("repeats", "delete", "r")[:2] == (0, "r: deleted\n")
    assert run("repeats", "show", "r", "--json") == (1, "", "r: there is no such repeat\n")


def test_of_which_client(run, shop, service):
    """Of several that have one of that name, the one that is named, or one's own."""
    shop.repeat("r", every=60)
    with Client(service.server.address, name="other", timeout=HANG) as other:
        other.repeat("r", every=60)
    code, _, err = run("repeats", "pause", "r")
    assert (code, "other, shop have a repeat of that name; expected --client" in err) == (2, True)
    assert run("repeats", "pause", "r", "--name", "shop")[0] == 0
    assert shop.repeats()[0].paused
    assert run("repeats", "delete", "r", "--client", "other")[0] == 0
    assert run("repeats", "show", "r")[0] == 0


def test_next(run, shop):
    """Ten times by default, in the zone of the repeat."""
    shop.repeat("r", cron=CRON, tz=ZONE)
    code, out, _ = run("repeats", "next", "r")
    assert code == 0
    assert out.split() == [time.isoformat() for time in next_times(CRON, ZONE)]
    repeat = shop.repeat("s", every=90)
    lines = run("repeats", "next", "s", "--count", 2, "--json")[1].splitlines()
    times = [datetime.fromisoformat(json.loads(line)["time"]) for line in lines]
    assert (times[1] - times[0]).total_seconds() == 90
    assert times[0] == repeat.next
    repeat.pause()
    assert run("repeats", "next", "s") == (0, "", "s: it is paused\n")
    shop.repeats()[0].pause()
    assert run("repeats", "next", "r") == (0, out, "r: it is paused\n")
    assert run("repeats", "next", "x") == (1, "", "x: there is no such repeat\n")


def test_next_ends_with_the_calendar(run, shop):
    """It shows fewer times than asked for if the year 10000 comes before."""
    shop.repeat("r", every="365d")
    code, out, err = run("repeats", "next", "r", "--count", 10_000)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("999")


def test_next_without_a_server(run, monkeypatch):
    """Of an expression that is given."""
    monkeypatch.setenv("PURGATORY_ADDRESS", "tcp://127.0.0.1:1")
    code, out, _ = run("repeats", "next", "--cron", CRON, "--tz", ZONE, "--count", 3)
    assert code == 0
    assert out.split() == [time.isoformat() for time in next_times(CRON, ZONE, 3)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("next",), "expected NAME or --cron"),
        (("next", "r", "--cron", CRON), "expected NAME or --cron"),
        (("next", "--cron", "61 * * * *"), "cron is '61 * * * *'"),
        (("next", "--cron", CRON, "--tz", "Mars"), "tz is 'Mars'"),
        (("set", "r", "--cron", "0 0 30 2 *"), "cron is '0 0 30 2 *'"),
        (("set", "r", "--every", "0"), "every is 0"),
        (("set", "r", "--every", "5", "--tz", "Mars"), "purgatory: tz is 'Mars', without cron"),
        (("set", "r"), "--cron --every is required"),
        (("set", "r", "--cron", CRON, "--every", "5"), "not allowed with"),
    ],
)
def test_bad_arguments(run, at, arguments, words):
    """They are named, and the exit code is 2."""
    code, _, err = run("repeats", *arguments)
    assert code == 2
    assert words in err
