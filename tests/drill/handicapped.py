"""A server that lacks some of its defences, for the controls of the drill.

`python -m tests.drill.handicapped fence sessions -- serve ...`. Interpreted only.
"""

import sys
from collections.abc import Callable

from purgatory.cli import main
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.store.postgres import groups, lease_row


def without_guard() -> None:
    """Let frames leave, valid lease or not."""
    StoreLease.is_valid = lambda _: True


def without_fence() -> None:
    """Commit whatever epoch the row of the lease has."""
    make = groups.Groups._fence_sql
    asked = "WHERE epoch = $1::int8 AND commits = $2::int8"

    def fence_sql(self: groups.Groups) -> str:
        sql = make(self)
        assert asked in sql, sql
        return sql.replace(asked, "WHERE $1::int8 + $2::int8 IS NOT NULL")

    groups.Groups._fence_sql = fence_sql


def without_ending_sessions() -> None:
    """Leave the sessions of older epochs alone."""
    lease_row.end_sessions = lambda *_, **__: 0


HANDICAPS: dict[str, Callable[[], None]] = {
    "guard": without_guard,
    "fence": without_fence,
    "sessions": without_ending_sessions,
}


if __name__ == "__main__":
    at = sys.argv.index("--")
    for name in sys.argv[1:at]:
        HANDICAPS[name]()
    sys.argv[1:] = sys.argv[at + 1 :]
    sys.exit(main())
