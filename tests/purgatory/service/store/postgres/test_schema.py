"""The schema in PostgreSQL: made once, refused where it is not ours, migrated by the holder."""

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.store.postgres import postgres_store, schema
from purgatory.service.store.postgres.lease_row import PostgresLeaseRow
from purgatory.service.store.postgres.namespace import namespace_of
from purgatory.service.store.postgres.postgres_store import PostgresStore
from purgatory.service.store.postgres.schema import TABLE_NAMES
from purgatory.service.store.postgres.sessions.postgres_errors import StatementRefused
from tests.testing.changes import changes_of
from tests.testing.held_lease import open_store, take_over


def set_up(url, partition=""):
    """Set the tables up, as a server does at its start."""
    row = PostgresLeaseRow(url, partition, "a", "tcp://a:1", timeout_s=30)
    try:
        row.set_up()
    finally:
        row.close()


def tables(database, name="purgatory"):
    """Return the tables of a schema."""
    sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = %s"
    return {table for (table,) in database.execute(sql, name)}


def test_it_is_made_once(postgres):
    """A second start changes nothing; a partition has a schema of its own."""
    set_up(postgres.url)
    [(made,)] = postgres.execute("SELECT value FROM purgatory.meta")
    set_up(postgres.url)
    assert postgres.execute("SELECT value FROM purgatory.meta") == [(made,)]
    assert tables(postgres) == set(TABLE_NAMES)
    set_up(postgres.url, "orders")
    assert tables(postgres, "purgatory_orders") == set(TABLE_NAMES)
    assert postgres.execute("SELECT value FROM purgatory_orders.meta") != [(made,)]


def test_several_servers_at_once(postgres):
    """One of them makes it, all can use it."""
    failures = []

    def start():
        try:
            set_up(postgres.url)
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert tables(postgres) == set(TABLE_NAMES)


def test_others_that_are_always_quicker(postgres, monkeypatch):
    """After some attempts a start gives up: nothing has made the tables."""

    def refuse(*_):
        raise StatementRefused("another session makes it", "42P06", 0)

    monkeypatch.setattr(schema, "_creation", refuse)
    with pytest.raises(StoreError, match="schema purgatory: other servers are making it"):
        set_up(postgres.url)


def test_the_role_needs_create_on_the_database(postgres):
    """With it alone a role sets up, takes over and commits; without, it is refused."""
    role = f"role_{postgres.name}"
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    url = postgres.url.replace("postgres@", f"{role}@")
    assert url != postgres.url
    with pytest.raises(StoreError, match="permission denied for database"):
        set_up(url)
    postgres.execute(f"GRANT CREATE ON DATABASE {postgres.name} TO {role}")
    set_up(url)
    for _ in range(2):
        store = open_store(url)
        store.commit(changes_of(attempts=[2, 3, 3, 5, 6, "w", "Boom"]))
        assert [one.error for one in store.attempts([2])[2]] == ["Boom"]
        store.close()


def test_tables_of_another_program(postgres):
    """The first of them is named, in one line, and nothing is made."""
    postgres.execute("CREATE SCHEMA purgatory")
    postgres.execute("CREATE TABLE purgatory.songs (title text)")
    postgres.execute("CREATE TABLE purgatory.jobs (title text)")
    with pytest.raises(StoreError, match="has a table 'jobs' of another program") as caught:
        set_up(postgres.url)
    assert "\n" not in str(caught.value)
    assert tables(postgres) == {"songs", "jobs"}


def test_other_tables_beside_ours(postgres):
    """They do not matter."""
    postgres.execute("CREATE SCHEMA purgatory")
    postgres.execute("CREATE TABLE purgatory.songs (title text)")
    set_up(postgres.url)
    assert tables(postgres) == {"songs", *TABLE_NAMES}


@pytest.mark.parametrize("table", ["spreads", "attempts"])
def test_a_table_that_is_gone(postgres, table):
    """It is named, whichever version it came with."""
    set_up(postgres.url)
    postgres.execute(f"DROP TABLE purgatory.{table}")
    with pytest.raises(StoreError, match=f"lacks the table '{table}'"):
        set_up(postgres.url)


def test_a_later_version(postgres):
    """It is refused, with both versions."""
    set_up(postgres.url)
    postgres.execute("UPDATE purgatory.purgatory_version SET version = 3")
    with pytest.raises(StoreError, match="schema version is 3; expected 1 to 2"):
        set_up(postgres.url)


def test_a_database_that_is_too_old(postgres, monkeypatch):
    """It is refused, with both versions."""
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990_000)
    with pytest.raises(StoreError, match=r"the database is PostgreSQL .*; expected 99 or later"):
        set_up(postgres.url)


@pytest.mark.parametrize("value", ["off", "local", "on"])
def test_commits_that_are_not_synced(postgres, value):
    """They would lose answered changes: refused at the start, also over existing tables."""
    for _ in range(2):
        postgres.execute(f"ALTER ROLE postgres SET synchronous_commit = {value}")
        try:
            if value == "off":
                with pytest.raises(StoreError, match=r"synchronous_commit is off .*; expected on"):
                    set_up(postgres.url)
            else:
                set_up(postgres.url)
        finally:
            postgres.execute("ALTER ROLE postgres RESET synchronous_commit")
        set_up(postgres.url)


def test_a_user_without_rights(postgres):
    """The database's reason is said, in one line."""
    postgres.execute("DROP ROLE IF EXISTS guest")
    postgres.execute("CREATE ROLE guest LOGIN")
    with pytest.raises(StoreError, match="cannot make it: permission denied") as caught:
        set_up(postgres.url.replace("postgres@", "guest@"))
    assert "\n" not in str(caught.value)


def test_a_database_that_is_not_there(postgres):
    """Likewise."""
    with pytest.raises(StoreError, match=r"cannot connect: .*does not exist") as caught:
        set_up(postgres.url + "x")
    assert "\n" not in str(caught.value)


STEP = (
    "ALTER TABLE {schema}.held ADD COLUMN note text; -- why\nCREATE TABLE {schema}.more (x int8);\n"
)


@pytest.fixture
def _version_3(monkeypatch):
    """This program has a later schema."""
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(
        postgres_store,
        "migration",
        lambda namespace, version: schema.migration(namespace, version, {3: STEP}),
    )


@pytest.mark.usefixtures("_version_3")
class TestMigration:
    @pytest.fixture
    def old(self, postgres):
        """A database of the version before."""
        set_up(postgres.url)
        postgres.execute("UPDATE purgatory.purgatory_version SET version = 2")
        return postgres

    def test_by_the_holder(self, old):
        """It runs once, when the store is opened."""
        open_store(old.url).close()
        open_store(old.url).close()
        assert old.execute("SELECT version FROM purgatory.purgatory_version") == [(3,)]
        assert "more" in tables(old)

    def test_not_by_a_standby(self, old):
        """One of the later version looks at the lease, and changes nothing."""
        set_up(old.url)
        assert "more" not in tables(old)

    def test_not_after_a_takeover(self, old, monkeypatch):
        """It is fenced: a holder that was slow changes nothing."""
        lease = take_over(old.url)
        version = postgres_store.stored_version

        def late(*arguments):
            take_over(old.url)
            return version(*arguments)

        monkeypatch.setattr(postgres_store, "stored_version", late)
        with pytest.raises(StoreFenced):
            PostgresStore(old.url, "", lease)
        assert "more" not in tables(old)


# Made by the last program with that schema, which had copied `version_6_jobs.sql` of SQLite to it.
VERSION_1 = Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8")


class TestVersion1:
    """A database of the version before kept attempts."""

    @pytest.fixture
    def old(self, postgres):
        """Such a database, with jobs."""
        postgres.execute(VERSION_1)
        return postgres

    def test_its_jobs(self, old):
        """The holder finds all jobs, and keeps attempts from then on."""
        store = open_store(old.url)
        assert store.job_rows([1, 2, 3])[2] == (2, 2, 1000000001001, "Boom: z")
        assert store.results([1]) == {1: b"\xa242"}
        assert store.attempts([1, 2, 3]) == {}
        store.commit(changes_of(attempts=[2, 3, 3, 5, 6, "w", "Boom: new"]))
        store.close()
        store = open_store(old.url)
        assert [one.error for one in store.attempts([2])[2]] == ["Boom: new"]
        store.close()
        assert tables(old) == set(TABLE_NAMES)

    def test_beside_a_standby(self, old):
        """A standby of this version changes nothing: the active may be of the version before."""
        set_up(old.url)
        assert tables(old) == set(TABLE_NAMES) - {"attempts"}

    def test_a_table_that_is_gone(self, old):
        """It is named, as in the present version."""
        old.execute("DROP TABLE purgatory.spreads")
        with pytest.raises(StoreError, match="lacks the table 'spreads'"):
            set_up(old.url)

    def test_the_tables_are_those_of_a_new_database(self, old):
        """A migration leads to the same columns as a new start."""

        def columns(name):
            sql = (
                "SELECT table_name::text, column_name::text, data_type::text, is_nullable::text "
                "FROM information_schema.columns WHERE table_schema = %s "
                "ORDER BY table_name, ordinal_position"
            )
            return old.execute(sql, name)

        open_store(old.url).close()
        set_up(old.url, "new")
        assert columns("purgatory") == columns("purgatory_new")


def test_nothing_to_migrate():
    """A database of the present version is left as it is."""
    assert schema.migration(namespace_of(""), schema.SCHEMA_VERSION) == []


@pytest.mark.parametrize(("version", "is_refused"), [(139_999, True), (140_000, False)])
def test_the_oldest_server(version, is_refused):
    """PostgreSQL 14 is the first that is taken."""
    session = SimpleNamespace(server_version=version)
    with (
        pytest.raises(StoreError, match="is PostgreSQL 13; expected 14 or later")
        if (is_refused)
        else contextlib.nullcontext()
    ):
        schema._check_server(session)
