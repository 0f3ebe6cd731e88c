"""Mailbox: many senders, one reader, nothing lost and no reader left asleep."""

import errno
import gc
import os
import select
import signal
import sys
import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _purgatory_cpython.atomicity import COMPILED
from mq.errors import MailboxClosed
from mq.queues.mailbox import Mailbox
from mq.queues.signaler import Signaler
from tests.testing.forked_child import run_in_child

HANG_TIMEOUT_S = 30.0  # seconds: only a hang takes so long


@pytest.fixture
def mailbox():
    """A mailbox of our own thread."""
    mailbox = Mailbox()
    yield mailbox
    mailbox.close()


def readable(mailbox):
    """Whether a poller would report the mailbox."""
    poll = select.poll()
    poll.register(mailbox.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def test_empty(mailbox):
    """An empty mailbox gives None at once, and after a timeout."""
    assert mailbox.recv(0) is None
    assert mailbox.recv(0.001) is None
    assert not readable(mailbox)


def test_none_is_no_command(mailbox):
    """None is refused, and stands in nobody's way: `recv` returns None for an empty mailbox."""
    with pytest.raises(TypeError, match="command is None"):
        mailbox.send(None)
    assert (mailbox.depth, readable(mailbox)) == (0, False)
    mailbox.send(0)
    assert mailbox.recv(0) == 0
    assert mailbox.recv(0) is None


@given(st.lists(st.one_of(st.integers(), st.just("recv"), st.just("wait"))))
def test_against_a_deque(steps):
    """It is a deque whose descriptor is readable whenever there is a command."""
    mailbox, model, received = Mailbox(), deque(), 0
    for step in steps:
        if isinstance(step, int):
            mailbox.send(step)
            model.append(step)
        else:
            expected = model.popleft() if model else None
            received += expected is not None
            assert mailbox.recv(0 if step == "recv" else 0.0001) == expected
        if model:
            assert readable(mailbox)
        assert (mailbox.depth, mailbox.received) == (len(model), received)
        assert mailbox.sent == received + len(model)
    mailbox.close()


def test_a_command_stays_until_it_is_dropped(mailbox):
    """`head` returns the same command until `drop`, and then the next one."""
    for command in ("first", "second"):
        mailbox.send(command)
    assert mailbox.head() == mailbox.head(0) == "first"
    mailbox.drop(mailbox.received)
    assert (mailbox.received, mailbox.depth) == (1, 1)
    assert mailbox.recv() == "second"
    assert mailbox.head(0) is None


def test_a_command_is_dropped_once(mailbox):
    """A signal handler may take the command during its delivery: no other goes with it."""
    for command in ("first", "second"):
        mailbox.send(command)
    assert mailbox.head() == "first"
    number = mailbox.received
    assert mailbox.recv() == "first"  # by the handler
    mailbox.drop(number)
    assert mailbox.recv() == "second"


def test_the_descriptor_falls_silent_once_drained(mailbox):
    """After a recv that returned None a poller sleeps, and the next command wakes it."""
    for command in range(5):
        mailbox.send(command)
    while mailbox.recv(0) is not None:
        pass
    assert not readable(mailbox)
    mailbox.send("next")
    assert readable(mailbox)


def test_one_signal_for_a_run_of_commands(mailbox):
    """At most one signal is outstanding however much is sent."""
    for command in range(100):
        mailbox.send(command)
    assert int.from_bytes(os.read(mailbox.fileno(), 8), sys.byteorder) == 1


@pytest.mark.parametrize("senders", [1, 8])
def test_every_command_once_and_in_order(mailbox, senders):
    """Commands of many threads arrive exactly once, in the order of each sender."""
    total = int(os.environ.get("MQ_STRESS_COMMANDS", "200000"))
    count = total // senders

    def run(sender):
        for number in range(count):
            mailbox.send((sender, number))

    threads = [threading.Thread(target=run, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    expected = [0] * senders
    for _ in range(count * senders):
        sender, number = mailbox.recv(HANG_TIMEOUT_S)
        assert number == expected[sender]
        expected[sender] += 1
    for thread in threads:
        thread.join()
    assert mailbox.recv(0) is None
    assert mailbox.received == count * senders


def test_no_wake_up_is_lost_between_two_threads():
    """A reader that sleeps after every command is woken for every one."""
    here, there = Mailbox(), Mailbox()

    def echo():
        while (command := there.recv(HANG_TIMEOUT_S)) is not None:
            here.send(command)
            if command < 0:
                return

    thread = threading.Thread(target=echo)
    thread.start()
    for number in [*range(1, 5000), -1]:
        there.send(number)
        assert here.recv(HANG_TIMEOUT_S) == number
    thread.join()


def test_a_poller_is_woken_for_every_command(mailbox):
    """A reader that sleeps on the descriptor and drains until None misses nothing."""
    poll = select.poll()
    poll.register(mailbox.fileno(), select.POLLIN)

    def run(count):
        for _ in range(count):
            mailbox.send(1)

    threads = [threading.Thread(target=run, args=(5000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    received = 0
    while received < 20000:
        assert poll.poll(HANG_TIMEOUT_S * 1000)
        while mailbox.recv(0) is not None:
            received += 1
    for thread in threads:
        thread.join()


def interrupt_at(line_count, call):
    """Run `call`, raising KeyboardInterrupt at the n-th line it executes in the package."""
    remaining = line_count

    def trace(frame, event, arg):
        nonlocal remaining
        if not frame.f_code.co_filename.endswith(("mailbox.py", "signaler.py")):
            return None
        if event == "line":
            remaining -= 1
            if remaining == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_of_send_loses_nothing():
    """An owed signal survives an exception anywhere in send: the next send gives it."""
    line = 0
    interrupted = True
    while interrupted:
        line += 1
        mailbox = Mailbox()
        interrupted = interrupt_at(line, lambda box=mailbox: box.send("first"))
        posted = mailbox.depth
        mailbox.send("second")
        assert readable(mailbox)
        assert [mailbox.recv(0) for _ in range(posted)] == ["first"] * posted
        assert mailbox.recv(0) == "second"
        mailbox.close()
    assert COMPILED or line > 5  # compiled, only the signaler is interrupted


def test_an_interrupt_at_any_line_of_recv_loses_nothing():
    """A recv cut short anywhere leaves the commands, and the next recv finds them in order."""
    for commands in ([], ["a"], ["a", "b"]):
        line, interrupted = 0, True
        while interrupted:
            line += 1
            mailbox = Mailbox()
            got = []
            for command in commands:
                mailbox.send(command)
            taken_before = mailbox.received
            interrupted = interrupt_at(line, lambda box=mailbox, got=got: got.append(box.recv(0)))
            # The only thing an interrupt may take along is the command being returned.
            missing = len(commands) - mailbox.depth
            assert missing == mailbox.received - taken_before or missing == 1
            mailbox.send("last")
            rest = []
            while (command := mailbox.recv(0)) is not None:
                rest.append(command)
            assert rest == [*commands, "last"][missing:]
            mailbox.close()


def test_send_from_a_signal_handler_in_the_middle_of_recv(mailbox):
    """A signal handler of the reader's own thread may send to it, and wakes it."""
    before = signal.signal(signal.SIGALRM, lambda *_: mailbox.send("alarm"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert mailbox.recv(HANG_TIMEOUT_S) == "alarm"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_send_from_a_finalizer_inside_send(mailbox):
    """A finalizer that runs inside send may send: no lock is held."""

    class Finalized:
        def __del__(self):
            mailbox.send("finalized")

    sent = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "send":
            if event == "line" and len(sent) < 3:
                sent.append(Finalized())
                sent[-1] = None
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        mailbox.send("outer")
    finally:
        sys.settrace(before)
    gc.collect()
    assert sent
    received = sorted(mailbox.recv(0) for _ in range(len(sent) + 1))
    assert received == ["finalized"] * len(sent) + ["outer"]


def test_close(mailbox):
    """After close: send raises, what was sent is still received, then recv raises."""
    mailbox.send("kept")
    mailbox.close()
    mailbox.close()
    with pytest.raises(MailboxClosed) as raised:
        mailbox.send("refused")
    assert raised.value.errno == errno.ENOTSOCK
    assert mailbox.recv() == "kept"
    with pytest.raises(MailboxClosed):
        mailbox.recv()
    assert mailbox.fileno() == -1
    assert mailbox.closed


def test_close_wakes_a_waiting_recv():
    """A recv that waits for ever ends when the mailbox is closed by another thread."""
    mailbox, raised = Mailbox(), []

    def wait():
        try:
            mailbox.recv()
        except MailboxClosed as exc:
            raised.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    mailbox.close()
    thread.join(HANG_TIMEOUT_S)
    assert raised


def test_a_close_while_recv_looks(mailbox, monkeypatch):
    """By a signal handler of the reader's thread: recv raises, and says not that none came."""
    recv = Signaler.recv

    def closing(signaler):
        mailbox.close()
        return recv(signaler)

    monkeypatch.setattr(Signaler, "recv", closing)
    with pytest.raises(MailboxClosed):
        mailbox.recv(0)


def test_close_among_senders_never_writes_to_a_foreign_descriptor():
    """A sender between its steps keeps the descriptor alive: no EBADF, no reused number."""
    for _ in range(50):
        mailbox, errors = Mailbox(), []
        start = threading.Barrier(3)

        def run(mailbox=mailbox, errors=errors, start=start):
            start.wait()
            try:
                while True:
                    mailbox.send(1)
            except MailboxClosed:
                pass
            except OSError as exc:
                errors.append(exc)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        mailbox.recv(HANG_TIMEOUT_S)
        mailbox.close()
        for thread in threads:
            thread.join()
        assert not errors


def test_a_forked_child_is_refused(mailbox):
    """In a forked child send and recv raise a clear error; the parent is not disturbed."""
    mailbox.send("parent's")

    def work():
        for call in (lambda: mailbox.send("child's"), mailbox.recv, lambda: mailbox.recv(0)):
            with pytest.raises(MailboxClosed, match="forked"):
                call()
        with pytest.raises(MailboxClosed, match="forked"):
            mailbox.head(0)
        assert not mailbox.peek()
        assert (mailbox.depth, mailbox.sent, mailbox.received) == (0, 0, 0)
        assert mailbox.fileno() == -1
        mailbox.close()

    assert run_in_child(work) == 0
    assert mailbox.recv(0) == "parent's"
    assert mailbox.recv(0) is None


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_who_has_waited_waits_no_more(mailbox, timeout):
    """Senders need not wake a reader that has returned."""
    assert mailbox.recv(timeout) is None
    assert not mailbox.waiting


def test_repr(mailbox):
    """A mailbox shows what waits in it."""
    mailbox.send(1)
    assert "1 waiting, 0 received" in repr(mailbox)
