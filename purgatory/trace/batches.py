"""Batches: the rows of a table by column, many at a time.

A reader yields them checked, and what works on columns (the replay) takes them: a loop in C for
each column costs a tenth of a Python object for each row. Immutable by agreement; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

#: A list for each column of a table, in the order of the table, all of one length.
Columns: TypeAlias = tuple[list[Any], ...]

#: Rows of a batch that is made of single rows.
BATCH_ROWS: Final = 1_024


class Batch(NamedTuple):
    """Rows of one file. `numbers`: the line or row of each, for messages."""

    columns: Columns
    numbers: Sequence[int]


def columns_of(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Return rows by column; at least one row."""
    return tuple(map(list, zip(*rows, strict=True)))


def batched(rows: Iterable[tuple[Any, ...]]) -> Iterator[Columns]:
    """Yield rows by column, `BATCH_ROWS` at a time."""
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH_ROWS)):
        yield columns_of(batch)
