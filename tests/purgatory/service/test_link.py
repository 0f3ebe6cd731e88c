"""Link: what a client's thread makes of a connection's end."""

import sqlite3

import pytest

from purgatory.service import StoreFailed
from purgatory.store import Store
from tests.purgatory.helpers import HANG
from tests.purgatory.service.faults import Faults


def test_an_answer_before_the_end_is_had(serve, connect):
    """A server that answers and is gone, before the link has looked at either, has answered."""
    faults = Faults()
    server = serve({"open_store": lambda path: Store(path, connect=faults.connect)})
    client = connect(server)
    client.stats()
    faults.fail(code=sqlite3.SQLITE_IOERR, words="disk I/O error")
    link = client._link
    take, ends = link._take, []

    def take_when_it_is_gone():
        if link._session.busy and not ends:
            ends.append(server.wait(HANG))
            ends.append(link._monitor.poll(1000 * HANG))
        take()

    link._take = take_when_it_is_gone
    with pytest.raises(StoreFailed, match="disk I/O error"):
        client.defer("k").result(HANG)
    assert all(ends)
