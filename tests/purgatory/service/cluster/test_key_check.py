"""KeyCheck: a server without the keys of the active server does not start."""

import logging

import pytest

from purgatory.service.auth.access import Access
from purgatory.service.auth.authenticator import CurveAuthenticator
from purgatory.service.auth.key_store import SERVER, KeyStore
from purgatory.service.cluster.key_check import KeyMark, check_keys
from purgatory.service.errors import KeysError

MARK = KeyMark("key", "list")
PATIENCE = 0.2


@pytest.fixture
def row(table):
    """The row as a server sees it that starts beside an active one."""
    table.write(holder="other", address="tcp://a:1")
    row = table.open_row("", "")
    table.server_keys = lambda: MARK.text
    return row


def keep_beating(table, row, monkeypatch):
    """Have the active server write something before each look."""
    look = row.look

    def beat_and_look():
        table.write(beat=table.row.beat + 1)
        return look()

    monkeypatch.setattr(row, "look", beat_and_look)


def test_the_same_keys(row, caplog):
    """Nothing is said."""
    check_keys(row, MARK, PATIENCE)
    assert caplog.records == []


def test_no_server_was_active(table, row):
    """The first one decides."""
    table.server_keys = str
    check_keys(row, MARK, PATIENCE)


def test_another_key_than_that_of_the_active_server(table, row, monkeypatch):
    """No client could connect after a takeover; the error names both keys."""
    keep_beating(table, row, monkeypatch)
    with pytest.raises(KeysError, match=r"active server tcp://a:1 has the key key, this .* other"):
        check_keys(row, KeyMark("other", "list"), PATIENCE)


def test_another_key_after_all_servers_have_ended(row):
    """So a key pair is changed: nothing is written while the server looks."""
    check_keys(row, KeyMark("other", "list"), PATIENCE)


def test_another_allow_list(row, caplog):
    """A warning: the active server may have read a newer list since."""
    with caplog.at_level(logging.WARNING):
        check_keys(row, KeyMark("key", "other"), PATIENCE)
    assert "the allow list is not that with which the active server started" in caplog.text


def test_the_mark_of_a_server(tmp_path):
    """It changes with the key and with the rights of a client, and is none without keys."""
    assert KeyMark.of(None).text == "none none"
    keys = KeyStore(tmp_path)
    keys.new(SERVER)
    client = keys.new("client").public
    marks = {KeyMark.of(CurveAuthenticator(keys))}
    for access in (None, Access("client", rights=["read"])):
        keys.allow("client", client, access)
        marks.add(KeyMark.of(CurveAuthenticator(keys)))
    assert len(marks) == 3
    assert len({mark.public for mark in marks}) == 1
    assert all(len(mark.text.split(" ")) == 2 for mark in marks)
