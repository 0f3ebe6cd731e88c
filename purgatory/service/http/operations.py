"""Which operations are due next, and what failed last, for the live page. Any thread; reads only.

A server shows them only where that tells its reader nothing new; see `ServiceDaemon`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from purgatory.service.server.server import Server

#: Rows of a table.
ROWS: Final = 10


def read_operations(server: Server) -> dict[str, Any]:
    """Return the rows of both tables, as values for JSON; times are Unix milliseconds."""
    return {
        "now_ms": server.now_ms(),
        "next": [
            {
                "due_ms": operation.due_ms,
                "op_id": operation.op_id,
                "kind": operation.kind,
                "client": operation.client.name,
            }
            for operation in server.first_due(ROWS)
        ],
        "failures": [failure._asdict() for failure in server.latest_failures()],
    }
