"""Rows survive every format, and a suffix names the format."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory.trace import (
    CANCELLED,
    COMPLETED,
    EXPIRED,
    FAILED,
    Extension,
    KeyEvent,
    Operation,
    Outcome,
    TraceError,
    read_events,
    read_extensions,
    read_operations,
    read_outcomes,
    write_events,
    write_extensions,
    write_operations,
    write_outcomes,
)
from purgatory.trace.formats import open_rows
from purgatory.trace.validation import FARTHEST_MS
from tests.testing.trace_files import round_trip, text_file

SUFFIXES = ["parquet", "csv", "jsonl", "ndjson", "json", "csv.gz", "jsonl.gz", "CSV", "json.GZ"]

int64 = st.integers(-(2**63), 2**63 - 1)
times_of_rows = st.integers(-FARTHEST_MS, FARTHEST_MS)
# All that UTF-8 can hold, with what CSV and JSON find hard made likely.
hard = st.sampled_from(['"', ",", "\n", "\r", "\r\n", "\0", " ", "\ufeff", "\u2028", "\\", "é"])
texts = st.text() | st.lists(hard | st.characters(exclude_categories=("Cs",)), max_size=4).map(
    "".join
)
names = texts.filter(bool)
plain_names = names.filter(lambda name: "|" not in name)


@st.composite
def operations(draw):
    """Any operation that every format can hold."""
    keys = tuple(draw(st.lists(plain_names, min_size=1, max_size=4)))
    submitted_ms = draw(times_of_rows)
    return Operation(
        draw(names),
        draw(texts),
        submitted_ms,
        draw(st.integers(0, min(2**63 - 1, 2**63 - 1 - submitted_ms))),
        keys,
        draw(st.integers(1, len(set(keys)))),
    )


@st.composite
def events(draw):
    """Any event, held and failed ones, too."""
    at_ms = draw(times_of_rows)
    hold_ms = draw(st.just(0) | st.integers(0, min(2**63 - 1, 2**63 - 1 - at_ms)))
    return KeyEvent(draw(names), at_ms, hold_ms, draw(st.booleans()))


@st.composite
def extensions(draw):
    """Any extension."""
    at_ms = draw(times_of_rows)
    timeout_ms = draw(st.integers(0, min(2**63 - 1, 2**63 - 1 - at_ms)))
    return Extension(draw(names), at_ms, timeout_ms)


@st.composite
def outcomes(draw):
    """Any outcome."""
    outcome = draw(st.sampled_from((COMPLETED, FAILED, EXPIRED, CANCELLED)))
    by_key = draw(names) if outcome == COMPLETED else None
    times = draw(st.tuples(int64, int64, int64, int64, int64))
    return Outcome(draw(names), draw(texts), outcome, times[0], by_key, *times[1:])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "csv.gz", "json.gz"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_rows_survive_every_format(tmp_path_factory, suffix, data):
    """What is written is read, to the last character and millisecond, in the same order."""
    path = tmp_path_factory.mktemp("trace") / f"table.{suffix}"
    tables = (
        (write_operations, read_operations, operations()),
        (write_events, read_events, events()),
        (write_extensions, read_extensions, extensions()),
        (write_outcomes, read_outcomes, outcomes()),
    )
    for write, read, strategy in tables:
        rows = data.draw(st.lists(strategy, max_size=5))
        back = round_trip(path, write, read, rows)
        assert back == rows
        assert all(type(row) is type(other) for row, other in zip(back, rows, strict=True))


def test_events_without_the_optional_columns_are_neither_held_nor_failed(tmp_path, pq):
    """A file without `hold_ms` and `failed` reads as before, and so do nulls in them."""
    plain = [KeyEvent("k", 1), KeyEvent("l", 2)]
    paths = [
        text_file(tmp_path, "a.csv", "key,at_ms\nk,1\nl,2\n"),
        text_file(tmp_path, "b.csv", "failed,key,hold_ms,at_ms\n,k,,1\n,l,,2\n"),
        text_file(tmp_path, "c.jsonl", '{"key":"k","at_ms":1}\n{"key":"l","at_ms":2}\n'),
        pq(tmp_path / "d.parquet", key=["k", "l"], at_ms=[1, 2]),
        pq(tmp_path / "e.parquet", key=["k", "l"], at_ms=[1, 2], failed=[None, False]),
    ]
    for path in paths:
        assert list(read_events(path)) == plain


def test_truth_is_read_in_any_case(tmp_path):
    """Python, SQL and JSON write it differently."""
    path = text_file(tmp_path, "a.csv", "key,at_ms,failed\nk,1,True\nk,1,FALSE\nk,1,true\n")
    assert [event.failed for event in read_events(path)] == [True, False, True]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "csv.gz"])
def test_holds_and_failures_are_written_only_if_an_event_needs_them(tmp_path, suffix):
    """Other files have the bytes that they always had; one late row gives all rows the columns."""
    plain = [KeyEvent(f"k{n}", n) for n in range(40_000)]
    for name, rows, there in (
        ("plain", plain, False),
        ("held", [*plain, KeyEvent("k", 1, 5)], True),
        ("failed", [KeyEvent("k", 1, 0, True), *plain], True),
    ):
        path = tmp_path / f"{name}.{suffix}"
        assert round_trip(path, write_events, read_events, rows) == rows
        with contextlib.closing(open_rows(path)) as file:
            names = file.columns()
        assert tuple(names[2:]) == (("hold_ms", "failed") if there else ())
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_written_and_read(tmp_path, suffix):
    """Long and short names of a format, in either case."""
    rows = [KeyEvent("k", 1), KeyEvent("l", 2)]
    assert round_trip(tmp_path / f"events.{suffix}", write_events, read_events, rows) == rows


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl.gz"])
def test_many_rows_survive(tmp_path, suffix):
    """More rows than a batch or a row group of Parquet holds."""
    rows = [Operation(f"op-{n}", "é" * (n % 3), n, n, (f"k-{n}", "x"), 1) for n in range(70_000)]
    path = tmp_path / f"ops.{suffix}"
    assert round_trip(path, write_operations, read_operations, rows) == rows


@pytest.mark.parametrize("suffix", ["csv.gz", "jsonl.gz", "csv", "jsonl"])
def test_the_same_rows_give_the_same_bytes(tmp_path, suffix):
    """No time and no name of a temporary file gets into the output."""
    found = set()
    for name in ("one", "two"):
        path = tmp_path / f"{name}.{suffix}"
        round_trip(path, write_events, read_events, [KeyEvent("k", 1)])
        found.add(path.read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize(
    "name", ["ops", "ops.txt", "ops.parquet.gz", "ops.gz", "ops.csv.zip", ".csv", "csv"]
)
def test_an_unknown_suffix_is_refused(tmp_path, name):
    """On reading and on writing, before anything is opened."""
    path = tmp_path / name
    with pytest.raises(TraceError, match=r"suffix must be one of \.parquet"):
        write_events(path)
    path.write_text("key,at_ms\nk,1\n")
    with pytest.raises(TraceError, match="suffix must be one of"):
        read_events(path)
