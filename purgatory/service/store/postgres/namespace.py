"""Namespace: the schema of a partition, and the names of its sessions. Immutable; any thread."""

from typing import Final, NamedTuple

from purgatory.errors import StoreError
from purgatory.service.config import PARTITION

_SCHEMA: Final = "purgatory"
_MOST_BYTES: Final = 63  # PostgreSQL cuts longer names


class Namespace(NamedTuple):
    """The tables of a partition; `partition` is empty for a single one."""

    partition: str

    @property
    def schema(self) -> str:
        """The name of the schema."""
        return f"{_SCHEMA}_{self.partition}" if self.partition else _SCHEMA

    @property
    def session_prefix(self) -> str:
        """The beginning of its sessions' names."""
        return f"purgatory:{self.schema}:"

    def session_name(self, epoch: int, holder: str) -> str:
        """Return the name of a holder's session; epoch 0: it writes no groups."""
        return f"{self.session_prefix}{epoch}:{holder}"[:_MOST_BYTES]

    def table(self, name: str) -> str:
        """Return the qualified name of a table."""
        return f"{self.schema}.{name}"


def namespace_of(partition: str) -> Namespace:
    """Return a partition's namespace. Raises StoreError for a wrong name."""
    if partition and not PARTITION.fullmatch(partition):
        raise StoreError(
            f"partition is {partition!r}; expected at most 20 of the letters a-z, digits and _"
        )
    return Namespace(partition)
