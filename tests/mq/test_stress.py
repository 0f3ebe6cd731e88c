"""Stress: many threads, many commands, ends in every state.  Seeded where there is chance."""

import random
import threading
from collections import Counter

import pytest

import mq as zmq
from mq.queues.mailbox import Mailbox
from mq.queues.ypipe import YPipe

URL = "inproc://stress"


def test_a_million_commands_from_eight_senders(threads):
    """Each of 1,000,000 commands arrives exactly once, those of a sender in order."""
    mailbox: Mailbox[tuple[int, int]] = Mailbox()
    each = 125_000

    def send(sender):
        for n in range(each):
            mailbox.send((sender, n))

    for sender in range(8):
        threads.start(send, sender)
    expected = [0] * 8
    for _ in range(8 * each):
        sender, n = mailbox.recv(60)
        assert n == expected[sender]
        expected[sender] += 1
    threads.join()
    assert mailbox.recv(0) is None
    assert (mailbox.sent, mailbox.received) == (8 * each, 8 * each)
    mailbox.close()


@pytest.mark.parametrize("flush_every", [1, 16])
def test_a_pipe_between_two_threads(threads, flush_every):
    """What is written by one thread is read by another, in order, with a signal when it slept."""
    pipe, wake = YPipe(16), threading.Semaphore(0)
    count = 100_000

    def write():
        for n in range(1, count + 1):
            pipe.write(n)
            if n % flush_every == 0 and not pipe.flush():
                wake.release()
        if not pipe.flush():
            wake.release()

    threads.start(write)
    for n in range(1, count + 1):
        while not pipe.check_read():
            assert wake.acquire(timeout=60)
        assert pipe.read() == n
    threads.join()
    pipe._check()


def test_a_hundred_threads_closing_while_connecting(threads):
    """Twenty rounds of 100 sockets in 100 threads that connect and close at once, while the other
    side closes and the context ends: it ends, every time.
    """
    for _ in range(20):
        ctx = zmq.Context()
        pub = ctx.socket(zmq.PUB)
        pub.bind(URL)
        subs = [ctx.socket(zmq.SUB) for _ in range(100)]
        start = threading.Barrier(101)

        def work(sub, start=start):
            start.wait()
            try:
                sub.connect(URL)
            except zmq.ContextTerminated:
                pass
            sub.close()

        for sub in subs:
            threads.start(work, sub)
        start.wait()
        pub.close()
        ctx.term()
        threads.join()
        assert all(sub.closed for sub in subs)


def test_workers_in_a_star(ctx, threads):
    """A ventilator, eight workers and a sink: every task is done once."""
    tasks = 4_000
    source, sink = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL)
    source.bind("inproc://tasks")
    sink.bind("inproc://results")
    sink.rcvtimeo = 60_000
    told = threading.Event()

    def work():
        with ctx.socket(zmq.PULL) as pull, ctx.socket(zmq.PUSH) as push:
            pull.connect("inproc://tasks")
            push.connect("inproc://results")
            while (task := pull.recv_multipart()) != [b"stop"]:
                push.send_multipart(task)
            told.wait(60)  # a pipe that ends meanwhile would change the order of turns

    for _ in range(8):
        threads.start(work)

    def feed():
        for n in range(tasks):
            source.send_multipart([b"task", b"%d" % n])

    feeder = threads.start(feed)
    done = Counter(sink.recv_multipart()[1] for _ in range(tasks))
    feeder.join()
    assert done == {b"%d" % n: 1 for n in range(tasks)}
    for _ in range(8):
        source.send(b"stop")
    told.set()
    threads.join()
    source.close()
    sink.close()


def test_high_water_marks_changed_while_messages_flow(ctx, threads):
    """Both sides change their marks at random all the time; nothing is lost and neither hangs."""
    push, pull = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    pull.rcvtimeo = push.sndtimeo = 60_000
    count = 5_000

    def send():
        chance = random.Random(1)
        for n in range(count):
            if n % 7 == 0:
                push.sndhwm = chance.choice([0, 1, 2, 10, 100])
            push.send(b"%d" % n)

    threads.start(send)
    chance = random.Random(2)
    for n in range(count):
        if n % 11 == 0:
            pull.rcvhwm = chance.choice([0, 1, 3, 50])
        assert pull.recv() == b"%d" % n
    threads.join()
    push.close()
    pull.close()
