"""A pipe's end, state by state, with the commands between the ends delivered by hand."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.pipes.commands import ActivateRead, ActivateWrite, PipeHwm, PipeTerm, PipeTermAck
from mq.pipes.flow_control import HighWaterMarks
from mq.pipes.message import MessagePart
from mq.pipes.pending_connection import PendingConnection
from mq.pipes.pipe import PipeState, pipepair
from mq.queues.mailbox import Mailbox

X = b"x"
UNLIMITED = HighWaterMarks(0, 0)


class PipeEventSink:
    """Records what a pipe reports to its socket."""

    def __init__(self):
        self.events = []

    def __getattr__(self, name):
        return lambda pipe: self.events.append(name)


@pytest.fixture
def pipe_ends():
    """Two ends, each with a mailbox and a sink."""
    return make()


def make(hwms=UNLIMITED, fars=None):
    """Two linked ends; `fars`: the marks of the far one, if others."""
    pair = pipepair(hwms, fars or hwms, conflate=False)
    for end in pair:
        end.mailbox, end.sink = Mailbox(), PipeEventSink()
    return pair


def deliver(end, count=1000):
    """Let the owner of `end` process so many commands; their kinds."""
    kinds = []
    while len(kinds) < count and (command := end.mailbox.recv(0)) is not None:
        command.deliver()
        kinds.append(type(command))
    return kinds


def dead(end):
    return end.sink is None


def test_asked_by_one_side(pipe_ends):
    """active -> term_req_sent1; the other reads its delimiter and acknowledges; both are dead."""
    near, far = pipe_ends
    near.terminate(False)
    assert near.state is PipeState.TERM_REQ_SENT1
    assert deliver(far)[0] is PipeTerm
    assert far.state is PipeState.WAITING_FOR_DELIMITER
    assert far.read() is None
    assert far.state is PipeState.TERM_ACK_SENT
    assert deliver(near) == [PipeTermAck]
    assert dead(near)
    assert deliver(far) == [PipeTermAck]
    assert dead(far)


@pytest.mark.parametrize("asking", [(0,), (1,), (0, 1)])
def test_an_end_is_told_once_and_keeps_no_message(asking):
    """Whoever asks: a message that nobody read is freed, and an end sends nothing more."""
    freed = []

    class Part(bytes):
        def __del__(self):
            freed.append(bytes(self))

    ends = make()
    sinks = [end.sink for end in ends]
    for end in ends:
        end.delay = False
        assert end.write(Part(b"unread"))
        end.flush()
    for number in asking:
        ends[number].terminate(False)
    for _ in range(3):
        for end in ends:
            deliver(end)
    for end in ends:
        end.process_pipe_term_ack()  # a repeated one
        assert not end.write(X)
        end.write_ignoring_hwm(X)
        end.flush()
        end.rollback()
        assert (end.read(), end.readable) == (None, False)
        assert end.mailbox.recv(0) is None
    assert [dead(end) for end in ends] == [True, True]
    for sink in sinks:
        assert sink.events.count("pipe_terminated") == 1
    gc.collect()
    assert freed == [b"unread"] * 2


def test_messages_left_are_read_before_the_acknowledgement(pipe_ends):
    """waiting_for_delimiter: what was sent stays readable, and nothing can be written."""
    near, far = pipe_ends
    near.write(X)
    near.write(X)
    near.flush()
    near.terminate(False)
    deliver(far)
    assert not far.write(X)
    assert [far.read(), far.read(), far.read()] == [X, X, None]
    assert far.state is PipeState.TERM_ACK_SENT


@pytest.mark.parametrize("look", [lambda end: end.read(), lambda end: end.check_read()])
def test_delimiter_before_the_command(pipe_ends, look):
    """delimiter_received: the delimiter was seen first, the command then acknowledges at once."""
    near, far = pipe_ends
    near.terminate(False)
    assert not look(far)
    assert far.state is PipeState.DELIMITER_RECEIVED
    deliver(far)
    assert far.state is PipeState.TERM_ACK_SENT


def test_delimiter_received_and_then_terminated_here(pipe_ends):
    """delimiter_received: our own terminate makes it term_req_sent1, and both end."""
    near, far = pipe_ends
    near.terminate(False)
    far.read()
    far.terminate(False)
    assert far.state is PipeState.TERM_REQ_SENT1
    for _ in range(3):
        deliver(near)
        deliver(far)
    assert dead(near)
    assert dead(far)


def test_no_delay_acknowledges_at_once(pipe_ends):
    """Without delay (PUSH, PUB) the command alone is enough: no delimiter would ever be read."""
    near, far = pipe_ends
    far.delay = False
    near.write(X)
    near.flush()
    near.terminate(False)
    deliver(far)
    assert far.state is PipeState.TERM_ACK_SENT
    assert far.read() is None


def test_both_ask(pipe_ends):
    """term_req_sent1 on both sides -> term_req_sent2, each acknowledges, both are dead."""
    near, far = pipe_ends
    near.terminate(False)
    far.terminate(False)
    deliver(near, 1)
    assert near.state is PipeState.TERM_REQ_SENT2
    for _ in range(2):
        deliver(far)
        deliver(near)
    assert dead(near)
    assert dead(far)


def test_impatience_while_waiting_for_the_delimiter(pipe_ends):
    """waiting_for_delimiter: terminate with delay waits on, without it acknowledges at once."""
    near, far = pipe_ends
    near.write(X)
    near.flush()
    near.terminate(False)
    deliver(far)
    far.terminate(True)
    assert far.state is PipeState.WAITING_FOR_DELIMITER
    assert far.read() == X
    far.terminate(False)
    assert far.state is PipeState.TERM_ACK_SENT
    deliver(near)
    deliver(far)
    assert dead(far)


def test_terminate_takes_back_a_begun_message(pipe_ends):
    """The parts of a message not completed are never seen."""
    near, far = pipe_ends
    near.write(MessagePart(b"part", True))
    near.terminate(False)
    deliver(far)
    assert far.read() is None
    assert far.state is PipeState.TERM_ACK_SENT


def test_the_delimiter_needs_no_room(pipe_ends):
    """A full pipe can be ended."""
    near, far = make(HighWaterMarks(1, 1))
    while near.write(X):
        pass
    near.flush()
    near.terminate(False)
    deliver(far)
    assert [far.read(), far.read(), far.read()] == [X, X, None]


def test_no_marks_to_a_peer_that_is_ending(pipe_ends):
    """A change of HWM is told to an active peer only."""
    near, far = make(HighWaterMarks(5, 5))
    near.set_hwms(HighWaterMarks(6, 6))
    assert PipeHwm in deliver(far)
    deliver(near)
    near.terminate(False)
    deliver(far)
    near.set_hwms(HighWaterMarks(7, 7))
    far.set_hwms(HighWaterMarks(7, 7))
    assert deliver(far) == []
    assert deliver(near) == []


def test_the_marks_of_both_ends_add_up():
    """The writer's and the reader's: the reader reports each half of the sum, and no more often."""
    near, far = make(HighWaterMarks(1, 30), HighWaterMarks(20, 2))
    for writer, reader, room, reports in ((near, far, 3, 1), (far, near, 50, 2)):
        assert [writer.write(X) for _ in range(room + 1)] == [True] * room + [False]
        writer.flush()
        assert [reader.read() for _ in range(room + 1)] == [X] * room + [None]
        assert deliver(writer) == [ActivateWrite] * reports


def test_a_part_that_no_mark_stops(pipe_ends):
    """It counts like others; only an end stops it."""
    near, far = make(HighWaterMarks(1, 1))
    assert near.check_write()
    while near.write(X):
        pass
    near.write_ignoring_hwm(b"y")
    near.flush()
    assert near.msgs_written == 3
    assert [far.read() for _ in range(4)] == [X, X, b"y", None]
    near.terminate(True)
    near.write_ignoring_hwm(b"z")
    near.flush()
    assert near.msgs_written == 3
    deliver(far)
    assert far.read() is None


def test_a_part_tells_whether_another_follows(pipe_ends):
    """Marks count messages, not parts."""
    near, far = make(HighWaterMarks(1, 1))
    assert not far.more
    for _ in range(2):
        for more in (True, True, False):
            assert near.write(MessagePart(X, more=more))
    assert not near.check_write()
    near.flush()
    assert [(far.read() is not None, far.more) for _ in range(6)] == [
        (True, True),
        (True, True),
        (True, False),
    ] * 2


@pytest.mark.parametrize("look", ["read", "check_read"])
def test_a_dry_reader_looks_again_when_it_is_told(look):
    """Not before: it costs a lock; so each flush wakes it once."""
    near, far = make()
    assert not getattr(far, look)()
    near.write(X)
    near.flush()
    assert not getattr(far, look)()
    near.write(X)
    near.flush()
    assert deliver(far) == [ActivateRead]
    assert getattr(far, look)()
    near.write(X)
    near.flush()
    assert deliver(far) == []
    assert (far.readable, far.attached) == (True, False)
    near.terminate(True)
    assert (near.readable, far.readable) == (False, True)


def test_a_dry_reader_and_a_full_writer_are_activated(pipe_ends):
    """The sink hears of both, once."""
    near, far = make(HighWaterMarks(1, 1))
    assert far.read() is None
    assert near.write(X)
    assert near.write(X)
    assert not near.check_write()
    assert not near.write(X)
    near.flush()
    deliver(far)
    assert far.sink.events == ["read_activated"]
    far.read()
    deliver(near)
    assert near.sink.events == ["write_activated"]


def test_new_marks_tell_what_was_read(pipe_ends):
    """The reader of a full pipe reports at once, whichever end has new marks."""
    for changed in (0, 1):
        near, far = ends = make(HighWaterMarks(9, 9))
        while near.write(X):
            pass
        near.flush()
        deliver(far)
        assert far.read() == X
        assert deliver(near) == []  # no low-water mark is reached
        ends[changed].set_hwms(HighWaterMarks(8, 8))
        deliver(far)
        assert ActivateWrite in deliver(near)
        assert near._peers_msgs_read == 1


@pytest.mark.parametrize("changed", [0, 1])
def test_larger_marks_make_room(changed):
    """A full writer is activated, whichever end has new marks; smaller marks make no room."""
    near, _far = ends = make(HighWaterMarks(1, 1))
    while near.write(X):
        pass
    for mark, events in ((1, []), (2, ["write_activated"])):
        ends[changed].set_hwms(HighWaterMarks(mark, mark))
        deliver(near)
        assert near.sink.events == events
    assert [near.write(X) for _ in range(2)] == [True, False]


def test_commands_before_a_bind_wait_for_an_owner():
    """They come to the far end in order, once it has an owner."""
    near, far = make()
    near.pending, far.mailbox = PendingConnection(), None
    assert far.read() is None
    near.write(X)
    near.flush()
    near.terminate(False)
    assert near.state is PipeState.TERM_REQ_SENT1
    assert [type(command) for command in near.pending.held_commands] == [ActivateRead, PipeTerm]
    for command in near.pending.held_commands:
        command.deliver()
    assert far.state is PipeState.WAITING_FOR_DELIMITER
    assert far.read() == X


def test_a_pipe_that_waited_for_a_bind():
    """It has the peer's name and marks from then on, and its socket hears of it."""
    near, far = pipepair(HighWaterMarks(2, 9), None, conflate=False)
    near.mailbox, near.sink = Mailbox(), PipeEventSink()
    far.mailbox = Mailbox()
    far.set_own_hwms_before_bind(HighWaterMarks(3, 1))
    assert [far.write(X) for _ in range(13)] == [True] * 12 + [False]
    far.send_inproc_connected(HighWaterMarks(9, 1), b"name")
    deliver(near)
    assert (near.routing_id, near.sink.events) == (b"name", ["pipe_connected"])
    assert [near.write(X) for _ in range(4)] == [True, True, True, False]


@given(st.lists(st.sampled_from("wrtdWRTD"), max_size=30), st.booleans(), st.booleans())
def test_every_order_of_events_ends(steps, near_delay, far_delay):  # noqa: C901 - cases of a step
    """Writes, reads, terminations and deliveries in any order: after both have asked, and all has
    been delivered, both ends are dead, and what was read is what was written, in order.
    """
    near, far = make(HighWaterMarks(2, 2))
    near.delay, far.delay = near_delay, far_delay
    written, read = {near: [], far: []}, {near: [], far: []}
    for n, step in enumerate(steps):
        end = near if step.islower() else far
        if step.lower() == "w":
            part = b"%d" % n
            if not dead(end) and end.write(part):
                written[end].append(part)
                end.flush()
        elif step.lower() == "r":
            part = end.read()
            if part is not None:
                read[end].append(part)
        elif step.lower() == "t":
            if not dead(end):
                end.terminate(False)
        else:
            deliver(end, 1)
    for end in (near, far):
        if not dead(end):
            end.terminate(False)
    for _ in range(4):
        deliver(near)
        deliver(far)
    assert dead(near)
    assert dead(far)
    for end in (near, far):
        assert read[end] == written[end.peer][: len(read[end])]
