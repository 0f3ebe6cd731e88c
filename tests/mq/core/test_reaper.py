"""The reaper: started late, ends with the last socket, and term waits for that."""

import threading

import mq as zmq

URL = "inproc://context"


def test_term_waits_for_the_last_close(threads):
    """term returns when, and only when, every socket has been closed."""
    ctx = zmq.Context()
    sockets = [ctx.socket(zmq.PULL) for _ in range(3)]
    over = threading.Event()
    threads.start(lambda: (ctx.term(), over.set()))
    for socket in sockets:
        assert not over.is_set()
        socket.close()
    assert over.wait(30)


def test_term_waits_until_messages_are_read(threads):
    """With messages unread, term waits until their receiver reads them or closes."""
    ctx = zmq.Context()
    push, pull = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"x")
    push.close()
    assert len(ctx._core.slots) == 2
    threads.start(ctx.term)
    pull.close()


def test_no_thread_is_left_and_none_started_early():
    """The reaper starts with the first socket, and is gone after term."""

    def reapers():
        return {t for t in threading.enumerate() if t.name.startswith("mq-reaper")}

    before = reapers()
    ctx = zmq.Context()
    assert reapers() == before
    ctx.socket(zmq.PULL).close()
    assert len(reapers() - before) == 1
    ctx.term()
    assert reapers() == before
