"""The journal of a server: `replay` and `spark resolve` tell the outcomes that the server told."""

import random

from purgatory.cli.entry_point import main
from purgatory.service import Client
from purgatory.trace import read_outcomes
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess, outcome_of

OPERATIONS = 600


def outcomes_of(table):
    """Return op_id -> all columns but the lateness, which virtual time has not."""
    with read_outcomes(table) as rows:
        return {row.op_id: tuple(row[1:-1]) for row in rows}


def use(client):
    """Have a server's operations end in every way that a trace knows; returns their outcomes."""
    rng = random.Random(7)
    futures = {}
    for n in range(OPERATIONS):
        keys = (f"a{n}", f"b{n}")
        timeout = rng.choice((0.01, 0.05, HANG))
        futures[f"op-{n}"] = client.defer(
            *keys, timeout=timeout, need=rng.choice((1, 2)), op_id=f"op-{n}", kind=f"kind {n % 3}"
        )
        change_one(client, rng, n)
    for n in range(OPERATIONS):
        client.complete_later(f"a{n}")
        client.complete_later(f"b{n}")
    client.flush(HANG)
    return {op_id: outcome_of(future) for op_id, future in futures.items()}


def change_one(client, rng, n):
    """Complete, extend or fail one of the first `n`, or hold an event for a later one."""
    other = rng.randint(0, n)
    match rng.randrange(4):
        case 0:
            client.complete_later(f"a{other}")
        case 1:
            client.complete_later(f"b{n + 3}", hold=rng.choice((0.01, HANG)))
        case 2:
            client.extend_later(f"op-{other}", rng.choice((0.02, HANG)))
        case 3:
            client.fail_later(f"b{other}", OSError("gone"))


def test_all_engines_agree(spark, tmp_path, capsys):
    """In all columns, and with what the client was told."""
    server = ServerProcess(tmp_path / "data")
    server.start()
    with Client(server.address, name="owner", timeout=HANG) as client:
        told = use(client)
    assert server.end()[0] == 0
    server.process.stdout.close()
    server.process.stderr.close()
    journal = tmp_path / "data/journal"
    tables = [f"{journal}/operations", f"{journal}/events", "--extensions", f"{journal}/extensions"]
    replayed, resolved = f"{tmp_path}/replayed.parquet", f"{tmp_path}/resolved"
    assert main(["replay", *tables, "--outcomes", replayed]) == 0
    assert main(["spark", "resolve", *tables, "--out", resolved]) == 0
    capsys.readouterr()
    expected = outcomes_of(f"{journal}/outcomes")
    assert {op_id: row[1] for op_id, row in expected.items()} == told
    assert set(told.values()) == {"completed", "failed", "expired"}
    assert outcomes_of(replayed) == expected
    assert outcomes_of(resolved) == expected
