"""Text files, compressed or not, and bytes that are no text."""

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    SkippedRows,
    TraceError,
    read_events,
    write_events,
)
from tests.testing.trace_files import text_file


@pytest.mark.parametrize("name", ["e.csv.gz", "e.jsonl.gz"])
def test_a_damaged_gz_is_refused(tmp_path, name):
    """Not gzip at all, cut short, or with a wrong checksum: after the rows that could be read."""
    path = tmp_path / name
    with write_events(path) as out:
        for n in range(50_000):
            out.write(KeyEvent(f"key-{n * 7919 % 50_000}", n))
    whole = path.read_bytes()
    for data in (b"key,at_ms\nk,1\n", whole[: len(whole) // 2], whole[:-4] + b"\0\0\0\0"):
        path.write_bytes(data)
        rows = []
        with pytest.raises(TraceError) as caught:
            rows.extend(read_events(path))
        count = len(rows)
        assert not isinstance(caught.value, BadRows)
        assert str(path) in str(caught.value)
        assert (count == 0) == (data[:2] != whole[:2])
        assert count == 0 or f"after line {count + ('csv' in name)}" in str(caught.value)


def test_bytes_that_are_not_utf8_are_a_bad_row(tmp_path, pq):
    """In every format, with the row's place; the rows around it are readable."""
    pa = pq.pa
    raw = pa.array([b"a", b"\xff", b"c"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    paths = [
        text_file(tmp_path, "e.csv", b"key,at_ms\na,1\n\xff,2\nc,3\n"),
        text_file(
            tmp_path,
            "e.jsonl",
            b'{"key":"a","at_ms":1}\n{"key":"\xff","at_ms":2}\n{"key":"c","at_ms":3}\n',
        ),
        pq(tmp_path / "e.parquet", key=text, at_ms=[1, 2, 3]),
    ]
    for path, number in zip(paths, (3, 2, 2), strict=True):
        skipped = SkippedRows()
        assert list(read_events(path, on_bad=skipped)) == [KeyEvent("a", 1), KeyEvent("c", 3)]
        assert [(bad.number, bad.column) for bad in skipped.first] == [(number, "key")]
