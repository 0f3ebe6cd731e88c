"""A database with a wrong bit: the server says so, or cannot know; it never raises anything else.

`PURGATORY_ROUNDS` times 50 bits are flipped; a failure prints the seed.
"""

import os
import random
import sqlite3

import pytest

from purgatory import StoreError
from purgatory.service.protocol import Complete, Completion, Query
from purgatory.service.store.contract import DAMAGE
from tests.testing.step_server import StepServer, job, operation

ROUNDS = int(os.environ.get("PURGATORY_ROUNDS", "2"))
OPERATIONS = [f"op-{n}" for n in range(40)]
# Another client gets operations of the same ids.
_TWICE = """INSERT INTO batches
SELECT 1000 + first, 1000 + last, size, 'b', 0, NULL, operations FROM batches"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The bytes of a database with something in each table."""
    path = tmp_path_factory.mktemp("data") / "a.db"
    server = StepServer(path)
    server.hello()
    for op_id in OPERATIONS:
        server.submit(operation(op_id, op_id, "both", need=2, payload="x" * 50))
        server.complete(op_id, 1)
    server.submit(*[operation(f"single-{n}", f"key-{n}") for n in range(30)])
    server.submit(*[job(f"job-{n}", timeout_ms=10) for n in range(5)])
    server.pass_time(20)
    server.finish(*server.work("")[:2])
    for n in range(10):
        server.complete(f"key-{n}", n)
        server.complete(f"held-{n}", n, hold_ms=1_000_000)
    server.extend("op-3", 5_000)
    server.store.close()
    return path.read_bytes()


def use(path):
    """Start a server and read what it has; returns why it has failed, None if it has not."""
    server = StepServer(path)
    try:
        server.hello()
        server.fetch_outcomes()
        for op_id in OPERATIONS:
            server.post(Query, [op_id])
            server.step()
        server.post(Complete, [Completion("both")])
        server.step()
        server.pass_time(10_000)
        return server.store_loop.failure
    finally:
        server.store.close()


def write_changed(path, database, change):
    """Write a database with a statement done to it."""
    path.write_bytes(database)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(change)
    connection.close()


def flip_a_bit(content, dice):
    """Return it with one bit changed."""
    changed = bytearray(content)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return changed


def test_flipped_bits(database, tmp_path):
    """Some are noticed at the start, or when what is wrong is read."""
    seed = random.randrange(10**9)
    dice = random.Random(seed)
    noticed = 0
    for number in range(50 * ROUNDS):
        path = tmp_path / f"{number}.db"
        path.write_bytes(flip_a_bit(database, dice))
        try:
            failure = use(path)
        except StoreError as error:
            failure = error
        assert failure is None or isinstance(failure, StoreError), (seed, failure)
        noticed += failure is not None
    assert noticed, seed


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE batches SET operations = x'c1'",
        "UPDATE batches SET submitted_ms = 'yesterday'",
        "UPDATE batches SET last = 1000000000000",
        "UPDATE outcomes SET at_ms = 'late'",
        "UPDATE meta SET value = x'c1'",
        _TWICE,
        "ALTER TABLE outcomes RENAME COLUMN at_ms TO at_ns",
    ],
)
def test_a_value_that_cannot_be(database, tmp_path, change):
    """The error names the damage, and what helps."""
    path = tmp_path / "a.db"
    write_changed(path, database, change)
    with pytest.raises(StoreError, match=DAMAGE) as caught:
        use(path)
    assert caught.value.fatal


def test_a_value_that_is_read_later(database, tmp_path):
    """The server starts, and ends with the same error when it comes upon the value."""
    path = tmp_path / "a.db"
    write_changed(path, database, "UPDATE outcomes SET by_key = CAST(x'ff' AS TEXT)")
    failure = use(path)
    assert isinstance(failure, StoreError)
    assert DAMAGE in str(failure)
    assert failure.fatal
