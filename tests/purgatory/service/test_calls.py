"""The future of an operation: a future like any other, but for when its condition is made."""

import threading
from concurrent.futures import Future, wait

import pytest

from purgatory.service.calls import ServiceFuture
from tests.purgatory.helpers import HANG


@pytest.fixture
def future():
    return ServiceFuture(None, "o")


def test_it_has_the_fields_of_its_base(future):
    """Which it fills by itself: a Python with others must be noticed here."""
    mine = {"_cancel_asked", "_client", "acknowledged", "op_id"}
    on_demand = {"_condition", "_done_callbacks", "_waiters"}
    assert vars(future).keys() - mine == vars(Future()).keys() - on_demand
    for name in vars(Future()).keys() - {"_condition"}:
        assert getattr(future, name) == getattr(Future(), name)


def test_all_threads_get_the_same_condition(future):
    """Or one would wait where nobody tells."""
    start = threading.Barrier(4)
    found = []

    def look():
        start.wait(HANG)
        found.append(future._condition)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert len(found) == 4
    assert all(condition is future._condition for condition in found)


def test_who_waits_is_told(future):
    """By result, by callback, and by wait."""
    told = []
    future.add_done_callback(told.append)
    threading.Thread(target=future.set_result, args=(7,)).start()
    assert future.result(HANG) == 7
    assert wait([future], HANG).done == {future}
    assert told == [future]


def test_the_class_can_be_looked_at():
    """As help and inspect do."""
    assert ServiceFuture._condition is ServiceFuture.__dict__["_condition"]
