"""What a server keeps of its clients and of their outcomes."""

import pytest

from purgatory.service.server.memory import client_bytes
from purgatory.service.server.records.clients import ClientRecord, ClientRegistry, OutcomeRecord


def note(client, *seqs):
    """Give a client outcomes with these sequence numbers."""
    for seq in seqs:
        client.unacknowledged[seq] = OutcomeRecord(seq, seq, f"op-{seq}", client, "completed", 0)


def test_outcomes_in_portions():
    """Each portion begins above the number, with outcomes that came since the last one."""
    client = ClientRecord("ada")
    assert client.seqs_after(0, 2) == []
    note(client, 3, 5, 6)
    assert client.seqs_after(0, 2) == [3, 5]
    note(client, 9)
    assert client.seqs_after(5, 2) == [6]
    assert client.seqs_after(6, 2) == [9]
    assert client.seqs_after(9, 2) == []


@pytest.mark.parametrize(("outcome", "at_ms"), [("expired", 100), ("completed", 103)])
def test_the_time_of_an_outcome(outcome, at_ms):
    """An expiry is dated to the deadline, however late it was noticed."""
    assert OutcomeRecord(1, 1, "a", ClientRecord("ada"), outcome, 103).at_ms(100) == at_ms


def test_a_client_has_one_record():
    """Its bytes count once."""
    clients = ClientRegistry()
    assert clients.record("ada") is clients.record("ada")
    assert clients.bytes == client_bytes("ada")


@pytest.mark.parametrize("field", ["count", "connections"])
def test_an_idle_client_is_dropped(field):
    """Not while it has operations, outcomes or connections; its bytes go with it, once."""
    clients = ClientRegistry()
    client = clients.record("ada")
    setattr(client, field, 1)
    clients.drop_if_idle(client)
    assert clients.by_name == {"ada": client}
    setattr(client, field, 0)
    clients.drop_if_idle(client)
    clients.drop_if_idle(client)
    assert (clients.by_name, clients.bytes) == ({}, 0)


def test_depths():
    """How many clients, and the most that one of them has."""
    clients = ClientRegistry()
    assert clients.depths() == (0, 0)
    clients.record("ada").count = 2
    clients.record("bob").count = 5
    assert clients.depths() == (2, 5)


@pytest.mark.parametrize(
    ("until_ms", "now_ms", "is_over"), [(100, 99, False), (100, 100, True), (0, 100, False)]
)
def test_when_an_id_may_be_used_again(until_ms, now_ms, is_over):
    """At the end of its period, if it has one, and once its outcome is acknowledged."""
    client = ClientRecord("ada")
    note(client, 1)
    record = client.unacknowledged[1]
    record.until_ms = until_ms
    assert record.is_over(now_ms) is False
    del client.unacknowledged[1]
    assert record.is_over(now_ms) is is_over
