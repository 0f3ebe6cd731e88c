"""The commands for operations: defer, complete, fail, extend, cancel, query and list."""

import io
import json
import sys
import threading

import pytest

from purgatory.cli.connection import person
from purgatory.service import Client, Config
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def complete_when_waiting(client):
    """Complete the key as soon as an operation waits for it."""
    while not client.complete("k", {"sum": 12}):
        pass


def test_an_operation_from_defer_to_query(run, at, service):
    """Each command prints what it did."""
    assert run("defer", "paid", "packed", "--need", 2, "--in", 60, "--id", "o1",
               "--kind", "order", "--payload", '{"order": 1}') == (0, "o1\n", "")  # fmt: skip
    assert run("complete", "paid", "--value", '{"sum": 12}') == (
        1,
        "0 operations completed\n",
        "",
    )
    code, out, _ = run("query", "o1")
    assert code == 0
    for words in ("o1", "pending", "order", person(), "paid (done), packed", "2 of 2"):
        assert words in out
    assert run("complete", "packed", "other", "--value", "box 4")[0] == 0
    code, out, _ = run("query", "o1", "--json")
    state = json.loads(out)
    assert (state["state"], state["by_key"]) == ("completed", "packed")
    assert state["result"] == {"paid": {"sum": 12}, "packed": "box 4"}
    assert state["payload"] == {"order": 1}
    assert "box 4" in run("query", "o1")[1]
    assert service.server.stats().completed == 1


def test_an_id_twice(run, at):
    """It counts once."""
    assert run("defer", "k", "--id", "a", "--in", 60)[0] == 0
    assert run("cancel", "a", "a") == (0, "1 operation cancelled\n", "")
    assert run("outcomes", "ack", "a", "a") == (0, "1 outcome acknowledged\n", "")


def test_an_id_is_free_after_its_period(run, at):
    """With `--unique-for 0` that is the acknowledgement of the outcome."""
    for _ in range(2):
        assert run("defer", "k", "--id", "a", "--unique-for", 0) == (0, "a\n", "")
        assert run("complete", "k")[0] == 0
        assert run("outcomes", "ack", "a")[0] == 0


def test_wait(run, at, service):
    """`defer --wait` prints the value; an expiry has exit code 1."""
    with Client(service.server.address) as client:
        completer = threading.Timer(0, complete_when_waiting, [client])
        completer.start()
        assert run("defer", "k", "--wait", "--in", HANG) == (0, '{"sum": 12}\n', "")
        completer.join()
    code, out, err = run("defer", "k", "--wait", "--in", 0.01)
    assert (code, out) == (1, "")
    assert "not completed within 10 ms" in err


def test_defer_takes_no_outcome(run, at):
    """The outcome stays unread until the acknowledgement, however early the end is."""
    run("complete", "k", "--value", "5", "--hold", 60)
    assert run("defer", "k", "--id", "early") == (0, "early\n", "")
    run("defer", "later", "--id", "late")
    run("complete", "later")
    assert run("defer", "later", "--id", "late") == (
        0,
        "late\n",
        "the server knows it, as completed\n",
    )
    unread = run("outcomes", "list")[1]
    assert "early" in unread
    assert "late" in unread
    assert run("outcomes", "ack", "early", "late")[0] == 0


def test_cancel(run, at):
    """An operation can be cancelled once; then the exit code is 1."""
    run("defer", "k", "--id", "x")
    assert run("cancel", "x")[:2] == (0, "1 operation cancelled\n")
    gone = "x: it has ended, or is not known\n"
    assert run("cancel", "x") == (1, "0 operations cancelled\n", gone)


def test_extend(run, at):
    """An operation is given more time while it waits; bad news for one that has ended."""
    run("defer", "k", "--id", "x", "--in", 60)
    before = json.loads(run("query", "x", "--json")[1])["deadline_ms"]
    assert run("extend", "x", "--in", 600) == (0, "1 operation extended\n", "")
    assert json.loads(run("query", "x", "--json")[1])["deadline_ms"] > before
    gone = "unknown: it has ended, or is not known\n"
    assert run("extend", "x", "unknown", "--in", 1) == (1, "1 operation extended\n", gone)
    code, _, err = run("extend", "x", "--in", -1)
    assert code == 2
    assert "expected" in err


def test_fail(run, at):
    """The error comes to `defer --wait`, with exit code 1."""
    run("defer", "k", "--id", "x", "--in", 60)
    assert run("fail", "k", "--error", "Declined", "--message", "no funds") == (
        0,
        "1 operation failed\n",
        "",
    )
    assert run("defer", "k", "--id", "x", "--wait") == (1, "", "Declined: no funds\n")
    assert "Declined: no funds" in run("query", "x")[1]
    assert "failed" in run("query", "x")[1]
    assert run("fail", "k")[:2] == (1, "0 operations failed\n")


def test_limit_and_hold(run, at):
    """An event that is held is no bad news, though nothing waits for it yet."""
    assert run("complete", "k", "--value", "v", "--limit", 1, "--hold", 60) == (
        0,
        "0 operations completed\n",
        "",
    )
    assert run("defer", "k", "--wait", "--in", 60) == (0, "v\n", "")
    assert run("defer", "k", "--wait", "--in", 0.01)[0] == 1
    for option, value in (("--limit", 0), ("--hold", -1)):
        code, _, err = run("complete", "k", option, value)
        assert code == 2
        assert "expected" in err


def test_unknown(run, at):
    """An operation that the server does not know has exit code 1."""
    code, out, _ = run("query", "nope")
    assert code == 1
    assert "unknown" in out


def test_texts_are_not_markup(run, at):
    """A key is printed as it is, even if it looks like markup of `rich`."""
    run("defer", "[red]k[/red]", "--id", "[bold]")
    _, out, _ = run("query", "[bold]")
    assert "[red]k[/red]" in out
    assert "[bold]" in out


# purgatory list


@pytest.fixture
def shop(monkeypatch, run):
    """Operations of the client "shop" at a server in memory, the default of all commands."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service:
        monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)
        monkeypatch.setenv("PURGATORY_NAME", "shop")
        monkeypatch.setenv("COLUMNS", "160")
        for op_id, kind in (("a", "order"), ("b", "order"), ("c", "mail")):
            run("defer", op_id, "--id", op_id, "--kind", kind, "--payload", "7", "--in", "1h")
        run("complete", "b", "--value", '{"sum": 12}')
        yield run


def test_list_prints_a_table(shop):
    """In order of submission: what waits with its payload, what has ended with its result."""
    code, out, err = shop("list", "--wide")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[:4] for row in rows if row[3:4] == ["shop"]] == [
        ["a", "pending", "order", "shop"],
        ["b", "completed", "order", "shop"],
        ["c", "pending", "mail", "shop"],
    ]
    assert '{"sum": 12}' in out
    assert out.endswith("3 operations\n")


def test_list_filters(shop):
    """By kind, key, client and state; the limit is said to have been reached."""
    for options, found in (
        (["--kind", "order"], ["a", "b"]),
        (["--state", "pending"], ["a", "c"]),
        (["--waits-for", "c"], ["c"]),
        (["--client", "other"], []),
        (["--kind", "order", "--limit", "1"], ["a"]),
        (["--order", "newest"], ["c", "b", "a"]),
        (["--order", "newest", "--limit", "1"], ["c"]),
    ):
        code, out, _ = shop("list", "--json", *options)
        assert (code, [json.loads(line)["op_id"] for line in out.splitlines()]) == (0, found)
    assert shop("list", "--limit", "2")[1].endswith("2 operations; there may be more: --limit\n")
    assert shop("list", "--client", "other")[1] == "0 operations\n"


def test_wrong_options_of_list(shop):
    """One line says what was expected."""
    code, _, err = shop("list", "--limit", "0")
    assert code == 2
    assert "--limit: '0'; expected a whole number of 1 or more" in err
    code, _, err = shop("list", "--state", "unknown")
    assert code == 2
    assert "invalid choice" in err


class TestDefer:
    def test_an_outcome_belongs_to_the_person(self, run, at):
        """Not to a name that all users share."""
        run("defer", "k", "--id", "a")
        assert json.loads(run("query", "a", "--json")[1])["client"] == person()
        assert "@" in person()

    def test_a_person_is_told_where_its_outcome_will_be(self, run, at, monkeypatch):
        """On a terminal, on stderr; stdout has the id alone."""
        screen = io.StringIO()
        screen.isatty = lambda: True
        monkeypatch.setattr(sys, "stderr", screen)
        assert run("defer", "k", "--id", "a")[1] == "a\n"
        assert "purgatory outcomes show a" in screen.getvalue()

    def test_durations(self, run, at):
        """`--in` takes units and ISO 8601."""
        for text, expected in (("30m", 1800), ("PT30M", 1800), ("P1DT2H", 93_600), ("90", 90)):
            run("defer", "k", "--id", text, "--in", text)
            state = json.loads(run("query", text, "--json")[1])
            assert state["deadline_ms"] - state["submitted_ms"] == expected * 1000
        code, _, err = run("defer", "k", "--in", "30x")
        assert code == 2
        assert "argument --in: '30x' is not a valid duration; expected seconds" in err


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "[NaN]", "[1e999]"])
def test_what_is_no_json_is_a_text(run, at, text):
    """NaN and infinity are no numbers of JSON."""
    assert run("defer", "k", "--in", 60, "--id", "o", f"--payload={text}")[0] == 0
    [line] = run("query", "o", "--json")[1].splitlines()
    assert json.loads(line)["payload"] == text


def test_what_programs_have_stored(run, at, service):
    """Values that JSON does not have are null."""
    with Client(service.server.address, name=person()) as client:
        client.submit("k", op_id="o", payload={"ratio": float("nan"), "most": [float("inf")]})

    def refuse(text):
        raise ValueError(text)

    for command in (("query", "o"), ("list",)):
        [line] = run(*command, "--json")[1].splitlines()
        found = json.loads(line, parse_constant=refuse)
        assert found["payload"] == {"ratio": None, "most": [None]}


#: Deeper than any Python parses: 3.11 takes 1000 levels, 3.14 as many as its stack can hold.
DEEP = "[" * 200_000 + "]" * 200_000


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["defer", "k", "--payload", "18446744073709551616"], "--payload 18446744073709551616: "),
        (["defer", "k", "--payload", "[-9223372036854775809]"], "--payload [-922"),
        (["complete", "k", "--value", '{"a": 36893488147419103232}'], "--value "),
        (["defer", "k", "--payload", DEEP], "--payload [[["),
        (["complete", "k", "--value", DEEP], "--value [[["),
        (["list", "--limit", "0"], "--limit: '0'; expected a whole number of 1 or more"),
        (["list", "--limit", "-5"], "--limit: '-5'; expected"),
        (["list", "--limit", "many"], "--limit: 'many'; expected"),
        (["list", "--limit", str(2**70)], "limit is 1180591620717411303424; expected at most"),
        (["complete", "k", "--limit", "0"], "--limit: '0'; expected"),
        (["complete", "k", "--limit", str(2**63)], "limit is 9223372036854775808; expected"),
        (["defer", "k", "--need", "0"], "--need: '0'; expected"),
        (["defer", "k", "--need", "2"], "need is 2"),
        (["top", "--count", "0"], "--count: '0'; expected"),
        (["defer", "caf\udce9"], "expected a text that UTF-8 can hold"),
        (["fail", "k", "--error", "caf\udce9"], "expected a text that UTF-8 can hold"),
        (["list", "--kind", "caf\udce9"], "expected a text that UTF-8 can hold"),
        (["replay", "a", "b", "--metrics-port", "99999"], "'99999'; expected a port"),
    ],
)
def test_plain_mistakes(run, at, argv, words):
    """One line says what is wrong, and nothing asks for a report."""
    code, out, err = run(*argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "unexpected" not in err
