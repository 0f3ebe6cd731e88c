"""Portions of rows. Any thread."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_T = TypeVar("_T")


def in_portions(rows: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield the rows in lists of `size`, the last shorter, none empty."""
    iterator = iter(rows)
    while portion := list(islice(iterator, size)):
        yield portion
