"""ServiceFuture and ReplyFuture: standard futures with a condition made on first access."""

import concurrent.futures
import random
import threading
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path

import pytest

from purgatory.service.client.calls import reject, resolve, resolve_outcome
from purgatory.service.client.futures import HandledReply, ReplyFuture, ServiceFuture
from purgatory.service.platform import REAL_PLATFORM
from purgatory.service.protocol import OutcomeMessage
from tests.testing.eventually import eventually
from tests.testing.interrupts import (
    GROUND_FLOOR,
    PURGATORY,
    TIMINGWHEEL,
    at_every_place,
    handled_at,
    interrupted_at,
)
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def future():
    return ServiceFuture(None, "o")


def test_it_has_the_fields_of_its_base(future):
    """ReplyFuture sets the base's fields itself: this fails for a Python that has others."""
    mine = {"_cancel_requested", "_client", "acknowledged", "give_up_at", "op_id"}
    on_demand = {"_condition", "_done_callbacks", "_waiters"}
    fields = {*vars(future), *ReplyFuture.__slots__} - {"_forks"}
    assert fields - mine == vars(Future()).keys() - on_demand
    for name in vars(Future()).keys() - {"_condition"}:
        assert getattr(future, name) == getattr(Future(), name)


def test_all_threads_get_the_same_condition(future):
    """Threads that access it at once for the first time all find one condition."""
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


def test_a_failure_is_raised(future):
    """By each call of `result`; `exception` returns it."""
    error = ValueError("no")
    reject(future, error)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            future.result(0)
    assert future.exception(0) is error


def test_waiters_are_notified(future):
    """By `result`, by a callback, and by `wait`."""
    told = []
    future.add_done_callback(told.append)
    thread = threading.Thread(target=future.set_result, args=(7,))
    thread.start()
    assert future.result(HANG) == 7
    assert wait([future], HANG).done == {future}
    thread.join(HANG)  # callbacks are called after those that wait have been woken
    assert told == [future]


def test_an_interrupt_of_the_thread_that_resolves():
    """Wherever it comes: when the answer comes again, all that wait for the future go on."""
    folders = (str(Path(concurrent.futures.__file__).parent), TIMINGWHEEL, GROUND_FLOOR)
    at_every_place(lambda place: interrupted_resolve(place, folders), at_least=3)


def interrupted_resolve(place, folders):
    """Resolve a future for which a thread waits; interrupted, resolve it again."""
    future, seen = ReplyFuture(), []
    thread = threading.Thread(target=lambda: seen.append(future.result()), daemon=True)
    thread.start()
    eventually(lambda: future._condition._waiters)
    interrupter = interrupted_at(place, lambda: resolve(future, 7), folders)
    resolve(future, 7)
    thread.join(HANG)
    assert seen == [7], interrupter.where
    return interrupter


def test_notify_waiters():
    """It wakes `wait` as well, once."""
    future = ReplyFuture()
    thread = threading.Thread(target=wait, args=([future],), daemon=True)
    thread.start()
    eventually(lambda: future._waiters)
    future._state = "FINISHED"  # as an interrupted thread has left it
    future.notify_waiters()
    future.notify_waiters()
    thread.join(HANG)
    assert not thread.is_alive()


@pytest.mark.parametrize("seed", range(3))
def test_a_wait_that_begins_as_the_future_resolves(seed):
    """The waiter finds the result, or is notified of it."""
    dice = random.Random(seed)
    futures = [ReplyFuture() for _ in range(2000)]
    found = []

    def wait_for_each():
        for future in futures:
            if dice.random() < 0.5:
                future.add_done_callback(lambda _: None)
            found.append(future.result(HANG))

    waiter = threading.Thread(target=wait_for_each)
    waiter.start()
    for number, future in enumerate(futures):
        resolve(future, number)
    waiter.join(HANG)
    assert found == list(range(len(futures)))


def test_callbacks_before_and_after_the_result():
    """Both run; a cancelled future stays cancelled."""
    told = []
    before, after, cancelled = ReplyFuture(), ReplyFuture(), ReplyFuture()
    before.add_done_callback(told.append)
    assert cancelled.cancel()
    for future in (before, after, cancelled):
        resolve(future, 7)
    after.add_done_callback(told.append)
    assert told == [before, after]
    assert (before.result(), after.result(), after.exception()) == (7, 7, None)
    assert cancelled.cancelled()


@pytest.mark.parametrize("end", [lambda future: resolve(future, 7), ReplyFuture.cancel])
def test_a_callback_while_a_signal_handler_ends_the_future(end):
    """Wherever the handler comes: the callback is called once."""
    folders = (str(Path(concurrent.futures.__file__).parent), PURGATORY)

    def add_a_callback(place):
        future, told = ReplyFuture(), []
        add = partial(future.add_done_callback, told.append)
        handler = handled_at(place, add, lambda: end(future), folders)
        end(future)
        assert told == [future], handler.where
        return handler

    at_every_place(add_a_callback, at_least=3)


def test_a_coroutine_function_is_no_callback(future):
    """It would never run, so it is refused at once, as by the futures of a purgatory."""

    async def coroutine(_):
        """Do nothing."""

    for each in (future, ReplyFuture()):
        with pytest.raises(TypeError, match="a coroutine function"):
            each.add_done_callback(coroutine)
        with pytest.raises(TypeError, match="fn is 5; expected a callable"):
            each.add_done_callback(5)


def test_the_class_can_be_looked_at():
    """`help` and `inspect` read lazy attributes of the class."""
    assert ServiceFuture._condition is ReplyFuture.__dict__["_condition"]


class CancellingClient:
    """Has the future cancelled by the server, after another thread has marked it as running."""

    timeout = HANG
    platform = REAL_PLATFORM
    future = None

    def cancel(self, operation):
        """Say that the operation was cancelled."""
        self.future.set_running_or_notify_cancel()
        resolve_outcome(self.future, OutcomeMessage(1, operation, "cancelled", 5))
        return True


@pytest.mark.parametrize("outcome", ["completed", "expired", "failed", "cancelled"])
def test_one_marked_as_running_ends(outcome):
    """However the operation ends; until then `cancel` returns False, as of any future."""
    future, told = ServiceFuture(None, "o"), []
    future.add_done_callback(told.append)
    assert future.set_running_or_notify_cancel()
    assert not future.cancel()
    resolve_outcome(future, OutcomeMessage(1, "o", outcome, 5))
    assert future.done()
    assert told == [future]


def test_one_marked_as_running_while_it_is_cancelled():
    """It ends cancelled, and whoever would run it now learns of that."""
    client = CancellingClient()
    future = client.future = ServiceFuture(client, "o")
    assert future.cancel()
    assert future.cancelled()
    assert not future.set_running_or_notify_cancel()


class TestHandledReply:
    """A reply with a function instead of waiters."""

    def test_its_function_gets_the_answer_once(self):
        """Before that it is not done; a second answer is ignored, as of any reply."""
        told = []
        reply = HandledReply(told.append)
        assert not reply.done()
        for _ in range(2):
            resolve(reply, 7)
        assert told == [reply]
        assert reply.result() == 7
        assert reply.exception() is None

    def test_its_function_gets_the_error(self):
        """As of a call that is refused."""
        told = []
        reply = HandledReply(told.append)
        reject(reply, ValueError("no"))
        assert told == [reply]
        assert str(reply.exception()) == "no"

    def test_a_function_that_raises(self, caplog):
        """The thread that resolves it goes on."""
        reply = HandledReply(lambda _: 1 / 0)
        resolve(reply, 7)
        assert reply.result() == 7
        assert "ZeroDivisionError" in caplog.text

    def test_it_makes_no_condition(self):
        """All of them share one object without a lock."""
        replies = [HandledReply(print), HandledReply(print)]
        assert replies[0]._condition is replies[1]._condition
        assert not {"_condition", "_waiters"} & {name for one in replies for name in vars(one)}
