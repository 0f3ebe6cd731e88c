"""Ends the sessions of a lost holder: a group half sent would lock the lease's row.

Sessions are found by name, which poolers hand on. Any thread with the session.
"""

import re
from typing import Final

from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.session import DatabaseSession, statement
from purgatory.service.store.postgres.sessions.wire_values import wire_int

_END: Final = (
    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND CASE WHEN application_name ~ $1::text "
    "THEN split_part(application_name, ':', 3)::numeric BETWEEN $2::int8 AND $3::int8 "
    "OR left(application_name, length($4::text)) = $4::text ELSE false END"
)


def end_sessions(
    session: DatabaseSession,
    namespace: Namespace,
    epoch: int,
    holder: str,
    timeout_s: float,
    *,
    all_of_holder: bool = False,
) -> int:
    """End the sessions that write groups of epochs up to `epoch`; return how many.

    `all_of_holder`: also its session for looks, but not `session`.
    """
    pattern = f"^{re.escape(namespace.session_prefix)}[0-9]+:"
    looking = namespace.session_name(0, holder) if all_of_holder else "-"
    values = (pattern.encode(), wire_int(1), wire_int(epoch), looking.encode())
    [result] = session.run([statement(_END, *values)], timeout_s)
    return int(session.rows(result)[0][0])
