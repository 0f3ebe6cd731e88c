"""Kind: what a row of a report is about. Immutable; any thread may use it."""

from __future__ import annotations

from typing import NamedTuple

from purgatory.spark.report import formatting


class Kind(NamedTuple):
    """What a row is about: all kinds (`total`), a kind, or the small kinds."""

    total: bool
    name: str | None

    def __str__(self) -> str:
        if self.total:
            return "all kinds"
        if self.name is None:
            return "other kinds"
        return formatting.name(self.name) or "(no kind)"
