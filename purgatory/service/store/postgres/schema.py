"""The schema in PostgreSQL: made by the first server, migrated by an active one.

A standby of a later version starts beside an active of an earlier one, and changes nothing: a
migration runs after its takeover, fenced. For the threads that look at the lease and open a store.
"""

import logging
import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from purgatory.errors import StoreError
from purgatory.service.store.contract import DATABASE_ID
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.schema_tables import TABLES, VERSION_TABLE, translated
from purgatory.service.store.postgres.sessions.postgres_errors import StatementRefused
from purgatory.service.store.postgres.sessions.session import (
    OLDEST_SERVER,
    DatabaseSession,
    Statement,
    statement,
)
from purgatory.service.store.postgres.sessions.wire_values import wire_int
from purgatory.service.store.shared_tables import ATTEMPTS

log: logging.Logger = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 2
OLDEST_VERSION: Final = 1
#: Version -> the statements that lead to it from the version before; `{schema}` as in `TABLES`. The
#: SQL does not change when the tables do.
STEPS: Final[dict[int, str]] = {2: translated(ATTEMPTS)}
_TRIES: Final = 20  # to make the tables, while other servers do the same


def table_names(statements: str) -> tuple[str, ...]:
    """Return the names of the tables that statements make, in order."""
    return tuple(
        line.split("{schema}.")[1].split(" ")[0]
        for line in statements.splitlines()
        if line.startswith("CREATE TABLE")
    )


TABLE_NAMES: Final = table_names(TABLES)


def set_up_schema(session: DatabaseSession, namespace: Namespace, timeout_s: float) -> None:
    """Make missing tables. Raises StoreError, in a single line, if impossible.

    The database may be too old, or not sync its commits, or have tables of a later version or
    another program. What has become so since the start is fatal: a standby would try it for ever.
    """
    _check_server(session)
    _check_commits(session, timeout_s)
    for _ in range(_TRIES):
        found = _tables(session, namespace, timeout_s)
        if found:
            _check_is_ours(namespace, found)
            version = stored_version(session, namespace, timeout_s)
            _check_version(namespace, version)
            _check_tables(namespace, found, version)
            return
        try:
            session.run(_creation(namespace), timeout_s)
            log.warning("made the tables of the schema %s", namespace.schema)
        except StatementRefused as error:
            if not error.is_race:
                raise StoreError(f"schema {namespace.schema}: cannot make it: {error}") from error
    raise StoreError(f"schema {namespace.schema}: other servers are making it; try again")


def _check_server(session: DatabaseSession) -> None:
    version = session.server_version
    if version < OLDEST_SERVER:
        raise StoreError(
            f"the database is PostgreSQL {version // 10_000}; expected {OLDEST_SERVER // 10_000} "
            "or later"
        )


def _check_commits(session: DatabaseSession, timeout_s: float) -> None:
    sql = "SELECT current_setting('synchronous_commit')"
    [result] = session.run([statement(sql)], timeout_s)
    if session.rows(result) == [("off",)]:
        raise StoreError(
            "synchronous_commit is off for the server's role, so a crash of the database would "
            "lose answered changes; expected on, remote_apply, remote_write or local",
            fatal=True,
        )


def _tables(session: DatabaseSession, namespace: Namespace, timeout_s: float) -> set[str]:
    sql = (
        "SELECT relname::text FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname = $1::text AND relkind IN ('r', 'p', 'v', 'm', 'f')"
    )
    [result] = session.run([statement(sql, namespace.schema.encode())], timeout_s)
    return {name for (name,) in session.rows(result)} & set(TABLE_NAMES)


def _check_is_ours(namespace: Namespace, found: set[str]) -> None:
    if VERSION_TABLE not in found:
        raise StoreError(
            f"schema {namespace.schema} has a table {min(found)!r} of another program; expected a "
            "schema of its own"
        )


def _check_tables(namespace: Namespace, found: set[str], version: int) -> None:
    """Check for missing tables, apart from later versions'."""
    later = {name for target in STEPS if target > version for name in table_names(STEPS[target])}
    missing = sorted(set(TABLE_NAMES) - later - found)
    if missing:
        raise StoreError(f"schema {namespace.schema} lacks the table {missing[0]!r}", fatal=True)


def _check_version(namespace: Namespace, version: int) -> None:
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"schema {namespace.schema}: schema version is {version}; expected {OLDEST_VERSION} "
            f"to {SCHEMA_VERSION}",
            fatal=True,
        )


def stored_version(session: DatabaseSession, namespace: Namespace, timeout_s: float) -> int:
    """Return the version of the tables. Raises StoreError."""
    sql = f"SELECT version FROM {namespace.table(VERSION_TABLE)}"
    rows = session.rows(session.run([statement(sql)], timeout_s)[0])
    return int(rows[0][0]) if rows else 0


def _creation(namespace: Namespace) -> list[Statement]:
    database_id = msgspec.msgpack.encode(secrets.token_hex(8))
    return [
        statement("BEGIN"),
        statement(f"CREATE SCHEMA IF NOT EXISTS {namespace.schema}"),
        *statements_of(TABLES, namespace),
        statement(
            f"INSERT INTO {namespace.table(VERSION_TABLE)} VALUES ($1::int8)",
            wire_int(SCHEMA_VERSION),
        ),
        statement(
            f"INSERT INTO {namespace.table('meta')} VALUES ('{DATABASE_ID}', $1::bytea)",
            database_id,
        ),
        statement(
            f"INSERT INTO {namespace.table('lease')} (clock_ms, clock_at) SELECT "
            "ceil(extract(epoch FROM now()) * 1000)::int8, now()"
        ),
        statement("COMMIT"),
    ]


def statements_of(text: str, namespace: Namespace) -> list[Statement]:
    """Split SQL, whose statements end with a semicolon and a line or comment."""
    lines = [line.partition(" --")[0] for line in text.splitlines()]
    return [
        statement(one.replace("{schema}", namespace.schema))
        for one in "\n".join(lines).split(";")
        if one.strip()
    ]


def migration(
    namespace: Namespace, version: int, steps: Mapping[int, str] = STEPS
) -> list[Statement]:
    """Return the statements that bring tables of `version` to the present one."""
    found: list[Statement] = []
    for target in sorted(steps):
        if target > version:
            found += statements_of(steps[target], namespace)
            sql = f"UPDATE {namespace.table(VERSION_TABLE)} SET version = {target}"
            found.append(statement(sql))
    return found
