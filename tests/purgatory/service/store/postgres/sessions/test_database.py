"""Database: reads that are interrupted are done again, for they change nothing."""

import threading
from types import SimpleNamespace

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.postgres.sessions.database import Database, _next_limit
from purgatory.service.store.postgres.sessions.session import statement
from tests.testing.eventually import eventually

#: What interrupts a session.
CANCEL, TERMINATE = "pg_cancel_backend", "pg_terminate_backend"
#: Fails with its code until it was called so often as its sequence says.
REFUSE = """
CREATE SEQUENCE attempts;
CREATE FUNCTION refuse(code text, times int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('attempts') <= times THEN
        RAISE EXCEPTION 'refused' USING ERRCODE = code;
    END IF;
    RETURN 7;
END $$
"""


@pytest.fixture
def database(postgres):
    """A database as that of an active server."""
    made = Database(postgres.url, lambda: "purgatory:reader")
    made.is_patient = True
    yield made
    made.close()


def interrupts_itself(how, attempt=1):
    """Return a read whose session interrupts itself at that attempt, and waits for the effect."""
    return statement(
        f"SELECT {how}(pg_backend_pid()), pg_sleep(60) WHERE nextval('attempts') = {attempt}"
    )


def test_a_session_that_is_dropped(postgres, database):
    """The database has it no more; the next read makes another."""
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'purgatory:reader'"
    database.rows(statement("SELECT 1"))
    before = postgres.execute(sessions)
    database.drop()
    database.drop()
    eventually(lambda: postgres.execute(sessions) == [])
    database.rows(statement("SELECT 1"))
    assert len(before) == 1
    assert postgres.execute(sessions) not in (before, [])


@pytest.mark.parametrize("how", [CANCEL, TERMINATE])
class TestInterruptedReads:
    def test_one_statement(self, postgres, database, how):
        """It is done once more, in a new session if the old one has ended."""
        postgres.execute("CREATE SEQUENCE attempts")
        assert database.rows(interrupts_itself(how)) == []
        assert postgres.execute("SELECT last_value FROM attempts") == [(2,)]

    def test_several_statements(self, postgres, database, how):
        """All are read by the same attempt."""
        postgres.execute("CREATE SEQUENCE attempts")
        one = statement("SELECT nextval('attempts')")
        assert database.read(one, interrupts_itself(how, 2), one) == [[(3,)], [], [(5,)]]

    def test_pages(self, postgres, database, how):
        """The page is read again that was interrupted, and no other."""
        postgres.execute("CREATE SEQUENCE attempts")
        asked = []

        def page(after, limit):
            asked.append(after)
            if after < 500:
                return statement(f"SELECT generate_series({after + 1}, {after + limit})")
            return interrupts_itself(how)

        assert sum(len(rows) for rows in database.pages(0, page)) == 500
        assert asked == [0, 500]

    def test_an_impatient_read(self, postgres, database, how):
        """At the start somebody is told."""
        postgres.execute("CREATE SEQUENCE attempts")
        database.is_patient = False
        with pytest.raises(StoreError, match="cannot read"):
            database.rows(interrupts_itself(how))


@pytest.mark.parametrize("code", ["57014", "57P01", "40001", "40P01", "55P03", "08006"])
def test_what_passes(postgres, database, code, caplog):
    """The read is done as often as needed, and the log says so once."""
    postgres.execute(REFUSE)
    assert database.rows(statement(f"SELECT refuse('{code}', 3)")) == [(7,)]
    assert caplog.text.count("cannot read, trying on: refused") == 1


@pytest.mark.parametrize("code", ["42501", "53200", "58030", "XX001"])
def test_what_does_not_pass(postgres, database, code):
    """It is told at the first attempt."""
    postgres.execute(REFUSE)
    with pytest.raises(StoreError, match="cannot read: refused") as caught:
        database.rows(statement(f"SELECT refuse('{code}', 3)"))
    assert not caught.value.fatal
    assert database.waits_for == ""
    assert postgres.execute("SELECT last_value FROM attempts") == [(1,)]


def test_a_stop(postgres, database):
    """A read that is refused again and again ends when the store is stopped."""
    postgres.execute(REFUSE)
    raised = []

    def read():
        with pytest.raises(StoreError) as caught:
            database.rows(statement("SELECT refuse('57014', 1000000)"))
        raised.append(caught.value)

    thread = threading.Thread(target=read)
    thread.start()
    eventually(lambda: postgres.execute("SELECT last_value FROM attempts")[0][0] > 2)
    assert database.waits_for.endswith(": refused")
    database.interrupt.set()
    thread.join()
    (error,) = raised
    assert "stopped before the database answered" in str(error)
    assert error.fatal


def test_a_database_that_is_away(postgres_cluster, monkeypatch):
    """The store says what it waits for until the next answer."""
    database = Database(postgres_cluster.url, lambda: "purgatory:reader", connect_s=0.5)
    database.is_patient = True
    assert database.rows(statement("SELECT 1")) == [(1,)]
    assert database.waits_for == ""
    postgres_cluster.primary.kill()
    waited_for = []

    def start_again():
        waited_for.append(database.waits_for)
        postgres_cluster.primary.start()

    monkeypatch.setattr(database, "pause", start_again)
    assert database.rows(statement("SELECT 1")) == [(1,)]
    assert "refused" in waited_for[0]
    assert database.waits_for == ""
    database.close()


@pytest.mark.parametrize(
    ("limit", "row_bytes", "following"),
    [
        (500, 100, 1000),  # twice as many
        (5000, 100, 8000),  # but no more
        (500, 4096, 1000),
        (1000, 4096, 1024),  # 4 MiB
        (500, 1 << 20, 16),  # and no fewer
    ],
)
def test_how_many_rows_the_next_page_has(limit, row_bytes, following):
    """By the bytes of some of the rows of this one; other values do not count."""
    rows = [(number, "text", bytes(row_bytes)) for number in range(100)]
    assert _next_limit(limit, rows) == following


def test_pages_of_large_rows_have_fewer_rows():
    """As many as fit: the rows of one page are in memory together."""
    asked = []

    def page(after, limit):
        asked.append(limit)
        return after, limit

    def rows(asked_for):
        after, limit = asked_for
        return [(n, bytes(1 << 20)) for n in range(after + 1, min(after + limit, 600) + 1)]

    pages = list(Database.pages(SimpleNamespace(rows=rows), 0, page))
    assert [row[0] for page in pages for row in page] == list(range(1, 601))
    assert asked[0] > asked[1]
