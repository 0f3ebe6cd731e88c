"""JSON lines: what others expect, and lines that are broken."""

import gzip
import json

import pytest

from purgatory.trace import (
    EXPIRED,
    Outcome,
    read_events,
    write_outcomes,
)
from tests.testing.trace_files import first_bad, text_file


@pytest.mark.parametrize(
    ("line", "column", "value"),
    [
        ('{"at_ms": 1}', "key", None),
        ('{"key": null, "at_ms": 1}', "key", None),
        ('{"key": 5, "at_ms": 1}', "key", 5),
        ('{"key": "\\ud800", "at_ms": 1}', "key", "\ud800"),
        ('{"key": "k"}', "at_ms", None),
        ('{"key": "k", "at_ms": "1"}', "at_ms", "1"),
        ('{"key": "k", "at_ms": 1.0}', "at_ms", 1.0),
        ('{"key": "k", "at_ms": true}', "at_ms", True),
        ('{"key": "k", "at_ms": 1e400}', "at_ms", float("inf")),
        ('{"key": "k", "at_ms": 9223372036854775808}', "at_ms", 2**63),
        ('{"key": "k", "at_ms": ' + "9" * 5000 + "}", "", None),
        ('{"key": "k", "at_', "", '{"key": "k", "at_'),
        ('["k", 1]', "", '["k", 1]'),
        ('{"key": "k", "at_ms": 1, "hold_ms": -1}', "hold_ms", -1),
        ('{"key": "k", "at_ms": 1, "hold_ms": 1.5}', "hold_ms", 1.5),
        ('{"key": "k", "at_ms": 1, "hold_ms": true}', "hold_ms", True),
        ('{"key": "k", "at_ms": 1, "hold_ms": 9223372036854775807}', "hold_ms", 2**63 - 1),
        ('{"key": "k", "at_ms": 1, "failed": 1}', "failed", 1),
        ('{"key": "k", "at_ms": 1, "failed": "true"}', "failed", "true"),
        ("[" * 100_000, "", None),
        ("null", "", "null"),
    ],
)
def test_a_broken_json_line_is_named(tmp_path, line, column, value):
    """As for CSV; what is not an object, or is too deep or too big, is a bad row too."""
    path = text_file(tmp_path, "e.jsonl", f'\n{{"key": "k", "at_ms": 1}}\n{line}\n')
    bad = first_bad(read_events, path)
    assert (bad.unit, bad.number, bad.column) == ("line", 3, column)
    assert value is None or bad.value == value


def test_json_lines_are_what_others_expect(tmp_path):
    """One object a line; text as it is; null for no key."""
    path = tmp_path / "out.jsonl.gz"
    row = Outcome("a", "é", EXPIRED, 3, None, 1, 3, 2, 0)
    with write_outcomes(path) as out:
        out.write(row)
    text = gzip.decompress(path.read_bytes()).decode()
    assert "é" in text
    assert text.endswith("}\n")
    assert json.loads(text) == row._asdict()
