"""YPipe and YQueue: against a list, and every interleaving of two threads."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq import Empty, YPipe, YQueue


@given(st.lists(st.sampled_from(["push", "pop", "unpush"])), st.integers(1, 5))
def test_queue_against_a_list(steps, chunk_size):
    """Whatever the chunks, positions and values are those of a list."""
    queue, model, number = YQueue(chunk_size), [], 0
    for step in steps:
        if step == "push":
            queue.push(number)
            model.append(number)
            number += 1
        elif model:
            taken = queue.pop() if step == "pop" else queue.unpush()
            assert taken == model.pop(0 if step == "pop" else -1)
        assert queue.back - queue.front == len(model)


@given(st.lists(st.sampled_from(["write", "more", "flush", "read", "unwrite", "check"])))
def test_pipe_against_lists(steps):
    """What is complete and flushed is readable, in order, and nothing else."""
    pipe = YPipe(2)
    readable, complete, incomplete, number, asleep = [], [], [], 0, False
    for step in steps:
        if step in ("write", "more"):
            pipe.write(number, step == "more")
            incomplete.append(number)
            if step == "write":
                complete += incomplete
                incomplete = []
            number += 1
        elif step == "flush":
            assert pipe.flush() is not (asleep and bool(complete))
            asleep = asleep and not complete
            readable += complete
            complete = []
        elif step == "unwrite":
            if incomplete:
                assert pipe.unwrite() == incomplete.pop()
            else:
                with pytest.raises(Empty):
                    pipe.unwrite()
        elif step == "check":
            assert pipe.check_read() is bool(readable)
            asleep = asleep or not readable
        elif readable:
            assert pipe.read() == readable.pop(0)
        else:
            with pytest.raises(Empty):
                pipe.read()
            asleep = True
        pipe._check()


def test_unflushed_is_unreadable():
    """A write is not seen before the flush."""
    pipe = YPipe()
    pipe.write(1)
    assert not pipe.check_read()
    assert pipe.flush() is False  # the reader has looked, and sleeps
    assert pipe.read() == 1


def writer(pipe, state, messages):
    """The writer's steps, one compare-and-set each."""
    for number in range(messages):
        pipe.write(number)
        yield
        if not pipe.flush():
            yield
            state["signals"] += 1
        yield


def reader(pipe, state):
    """The reader's steps; it waits for a signal only when told to sleep."""
    while True:
        if pipe.check_read():
            state["read"].append(pipe.read())
            yield
            continue
        yield
        while not state["signals"]:
            state["waiting"] = True
            yield
        state["waiting"] = False
        state["signals"] -= 1


@pytest.mark.parametrize("messages", [1, 2, 3])
def test_no_wake_up_is_lost_in_any_interleaving(messages):
    """Whatever the order of write, flush, check, wait, signal: all is read, a signal a sleep."""
    for order in itertools.product("wr", repeat=4 * messages + 2):
        pipe, state = YPipe(2), {"signals": 0, "read": [], "waiting": False}
        write, read = writer(pipe, state, messages), reader(pipe, state)
        for turn in order:
            next(write if turn == "w" else read, None)
            assert state["signals"] <= 1
        for _ in write:  # the writer comes to its end,
            pass
        for _ in range(8 * messages):  # and the reader is left to itself
            next(read)
        assert state["read"] == list(range(messages))
        assert state["waiting"]
        assert state["signals"] == 0
