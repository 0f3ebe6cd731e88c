"""What commands print: values, moments, results."""

from types import SimpleNamespace

import pytest

from purgatory.cli import output


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (b"bytes", "\"b'bytes'\""),
        ({(1, 2): 3}, '"{(1, 2): 3}"'),
    ],
)
def test_a_value(value, text):
    """A text as it is, all else as JSON, and what JSON cannot hold as its repr."""
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
