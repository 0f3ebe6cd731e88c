"""Timeline: all rows, once, in windows that follow each other."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from purgatory.replay.timeline import Timeline

TIMES = st.lists(st.integers(0, 12) | st.integers(0, 1000), max_size=12).map(sorted)
SIZES = st.lists(st.integers(1, 5), min_size=12, max_size=12)


def batches(columns, sizes):
    """Cut columns into batches of some sizes."""
    start = 0
    for size in sizes:
        if start < len(columns[0]):
            yield tuple(column[start : start + size] for column in columns)
        start += size


def operations(times):
    """A table of operations."""
    count = len(times)
    names = [f"o{n}" for n in range(count)]
    return (names, [""] * count, times, [0] * count, [("k",)] * count, [1] * count)


def extensions(times):
    """A table of extensions."""
    return ([f"o{n}" for n in range(len(times))], times, [0] * len(times))


def events(times):
    """A table of events."""
    count = len(times)
    return ([f"k{n}" for n in range(count)], times, [0] * count, [False] * count)


@given(st.tuples(TIMES, TIMES, TIMES), st.tuples(SIZES, SIZES, SIZES))
def test_windows_have_all_rows_in_order(times, sizes):
    """However they come in batches; no instant is in two windows."""
    tables = operations(times[0]), extensions(times[1]), events(times[2])
    cut = (batches(table, size) for table, size in zip(tables, sizes, strict=True))
    seen = [[], [], []]
    rows = until = 0
    for window in Timeline(*cut).windows():
        parts = (window.operations, window.extensions, window.events)
        found = [
            part.columns[place][part.start : part.end]
            for part, place in zip(parts, (2, 1, 1), strict=True)
        ]
        for before, more in zip(seen, found, strict=True):
            before += more
        together = list(chain.from_iterable(found))
        if together:
            assert window.span_ms() == (min(together), max(together))
            assert min(together) >= until
        rows += window.rows
        if window.until_ms is not None:
            until = window.until_ms
            assert max(together) < until
    assert seen == list(times)
    assert rows == sum(map(len, times))
