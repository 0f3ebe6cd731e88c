"""What commands print: values, moments, results."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from msgspec import Raw

from purgatory.cli import output
from purgatory.service import Client
from tests.purgatory.test_printable import HOSTILE

KEYS = '{"(1, 2)": 3, "aw==": null, "1.5": 4, "null": 5}'


def test_ages():
    """How long ago, or in how long; in one unit."""
    shown = [output.age(at, 10_000_000) for at in (9_999_500, 9_940_000, 17_300_000, 10_000_400)]
    assert shown == ["now", "1 min ago", "in 2 h", "now"]
    assert output.short("a" * 17) == "a" * 15 + "…"
    assert output.short("a" * 16) == "a" * 16


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ({"é": ["💶", "\x1b\u2028"]}, r'{"é": ["💶", "\u001b\u2028"]}'),
        (b"bytes", '"Ynl0ZXM="'),
        (Raw(b"\xa1\xff"), '"of8="'),
        (datetime(1960, 1, 1, tzinfo=UTC), '"1960-01-01T00:00:00Z"'),
        ({(1, 2): 3, b"k": float("nan"), 1.5: 4, None: 5}, KEYS),
    ],
)
def test_a_value(value, text):
    """A text as it is, all else as JSON: bytes as base64, and what JSON cannot hold as its repr."""
    assert output.value_text(value) == text
    assert output.optional_text(value) == text
    assert output.optional_text(None) == ""


@pytest.mark.parametrize(
    ("outcome", "value", "text"),
    [
        ("completed", "done", "done"),
        ("expired", None, ""),
        ("failed", ["ValueError", "bad"], "ValueError: bad"),
        ("failed", ["ValueError", ""], "ValueError"),
        ("failed", "no pair", "no pair"),
    ],
)
def test_a_result(outcome, value, text):
    """The value or, if the operation failed, the error."""
    assert output.result_text(outcome, value) == text


def test_a_moment(monkeypatch):
    """Local time to the millisecond; beyond what a calendar can hold, the number."""
    assert output.moment(1_700_000_000_123).endswith(".123" + output.moment(0)[-6:])
    assert output.moment(10**18) == f"{10**18} ms"


def test_records_are_lines_of_json(capsys):
    """A line for each, with the names of its fields."""
    record = SimpleNamespace(key="a", count=1, __struct_fields__=("key", "count"))
    output.print_json([record, record])
    assert capsys.readouterr().out == '{"key": "a", "count": 1}\n' * 2


def test_a_record_stays_an_object(capsys):
    """Whatever its payload is: other programs ask for its fields."""
    for payload in ({b"k": 1}, nested([float("nan")], 499), nested(1, 200_000)):
        output.print_json(
            [SimpleNamespace(id="a", payload=payload, __struct_fields__=("id", "payload"))]
        )
        assert json.loads(capsys.readouterr().out)["id"] == "a"


def test_parts_of_a_record(capsys):
    """A key that is no text becomes one; NaN and infinity are null, also in a message within."""
    names = ("op_id", "payload", "history")
    part = SimpleNamespace(seconds=float("nan"), __struct_fields__=("seconds",))
    payload = {b"x": 1, (1, 2): float("inf"), datetime(2026, 11, 21, tzinfo=UTC): {None: 7}}
    record = SimpleNamespace(op_id="a", payload=payload, history=[part], __struct_fields__=names)
    output.print_json([record])
    assert json.loads(capsys.readouterr().out) == {
        "op_id": "a",
        "payload": {"eA==": 1, "(1, 2)": None, "2026-11-21T00:00:00Z": {"null": 7}},
        "history": [{"seconds": None}],
    }


def nested(value, levels):
    """Put a value into lists."""
    for _ in range(levels):
        value = [value]
    return value


def test_nothing_is_printed_of_nothing(capsys):
    """No table without rows, no facts without groups."""
    output.print_table(["a"], [])
    output.print_facts([])
    assert capsys.readouterr().out == ""


def test_a_table_and_facts(capsys, monkeypatch):
    """Rows below a head; names beside their texts, and no empty ones."""
    monkeypatch.setenv("COLUMNS", "80")
    output.print_table(["name", "count"], [["a", "1"]])
    output.print_facts([{"shown": "yes", "empty": ""}])
    told = capsys.readouterr().out
    assert "name" in told
    assert "yes" in told
    assert "empty" not in told


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (float("nan"), "null"),
        ([1.5, float("inf"), {"k": -float("inf")}], '[1.5, null, {"k": null}]'),
        ((float("nan"),), "[null]"),
        ({"k": [{"l": float("nan")}]}, '{"k": [{"l": null}]}'),
    ],
)
def test_what_json_does_not_have(value, line):
    """NaN and infinity are null: the output is JSON, whatever reads it."""
    assert output.json_text(value) == line


def test_a_value_that_is_nested_deeply():
    """It says so: past 1000 levels on 3.11, where the stack ends on 3.14."""
    assert output.json_text(nested(1, 200_000)) == '"(nested too deeply to be shown)"'


@pytest.mark.parametrize("columns", ["1", "5", "20", "60", "200"])
def test_a_narrow_terminal(capsys, monkeypatch, columns):
    """Nothing is left out: the terminal wraps the lines."""
    monkeypatch.setenv("COLUMNS", columns)
    output.print_table([f"head{n}" for n in range(7)], [[f"cell{n}" for n in range(7)]])
    output.print_facts([{"a long name of a fact": "fact 1"}])
    out = capsys.readouterr().out
    assert all(f"cell{n}" in out for n in range(7))
    assert "a long name of a fact" in out
    assert "fact 1" in out


class HostileError(Exception):
    """An error whose text is another program's."""


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\ud800" not in text])
@pytest.mark.usefixtures("at")
def test_texts_of_other_programs(run, service, text):
    """Each command shows ids, kinds, keys, names, payloads, results and errors on their lines."""
    with Client(service.server.address, name=f"c {text}") as client:
        client.defer(text, kind=text, op_id=text, payload=text, timeout=1000)
        client.defer(f"2 {text}", kind=text, op_id=f"2 {text}", timeout=1000)
        client.flush()
        shown = [run("query", text), run("list"), run("query", f"1 {text}")]
        client.complete(text, text)
        client.fail(f"2 {text}", HostileError(text))
        names = ("--name", f"c {text}")
        shown += [run("query", text), run("outcomes", "list", *names)]
        shown += [run("outcomes", "show", text, *names), run("outcomes", "show", "none", *names)]
    ends = [run("defer", "--wait", "k", "--id", f"3 {text}", "--in", 0.01)]
    ends.append(run("cancel", ""))
    for _, out, err in shown + ends:
        for line in (out + err).split("\n"):
            assert line.isprintable(), line
    assert all("2026-11-26 09:00" not in line for line in "".join(ends[0][1:]).split("\n")[1:-1])


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\ud800" not in text])
@pytest.mark.usefixtures("at")
def test_a_result_that_is_waited_for(run, service, text):
    """`defer --wait` prints it as one line."""
    with Client(service.server.address) as client:
        client.complete("k", text, hold=60)
        code, out, err = run("defer", "--wait", "k", "--in", 60)
    assert (code, err) == (0, "")
    assert out.removesuffix("\n").isprintable()
