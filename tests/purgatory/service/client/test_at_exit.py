"""A client that a finalizer uses while the interpreter exits, beside frozen threads of the program.

The server is gone by then: no call is answered.
"""

import pytest

from _purgatory_cpython import at_exit
from purgatory.service.client.client import Client
from tests._purgatory_cpython.test_at_exit import OWNERS, call_in_finalizer

MAKE = """
from purgatory.service.client.client import Client
self.owned = Client("tcp://127.0.0.1:1", timeout=60, name="a")
self.future = self.owned.defer("k", timeout=60)
self.future.add_done_callback(repr)
"""
CALLS = """
client = self.owned
client.defer("new", timeout=60), client.complete_later("k", 1), client.cancel_later("id")
client.schedule_later(5, kind="mail"), client.query_later("id"), repr(client), len(client._futures)
raises(TimeoutError, lambda: self.future.result(0))
raises(TimeoutError, lambda: client.flush(0))
client.close(), client.close(1)
"""


@pytest.mark.parametrize("owner", OWNERS)
def test_calls_beside_frozen_threads(owner):
    """No call waits for a lock of a thread that froze within another call."""
    assert call_in_finalizer(MAKE, CALLS, owner) == ("called\n", "")


def test_futures_are_not_visited():
    """At the exit, a client is visited in the same time, however many operations wait."""
    with Client("tcp://127.0.0.1:1", timeout=0.1) as client:
        before = len(list(at_exit._parts_of(client)))
        futures = [client.defer(f"k-{number}", timeout=60) for number in range(1000)]
        assert before > 5
        assert len(list(at_exit._parts_of(client))) <= before + 20  # batches
        assert len(futures) == 1000
