"""ConflatePipe: one slot, the last message wins."""

import pytest

from mq.queues.ypipe import ConflatePipe, Empty


def taken(pipe):
    """Return all that a pipe holds, taken as a reader takes it."""
    values = []
    while (value := pipe.probe_or_none()) is not None:
        values.append(value)
        pipe.drop()
    return values


def test_the_last_value_wins():
    """Of 20 values written before a read, the last is read, and then nothing."""
    pipe = ConflatePipe()
    for i in range(20):
        pipe.write(i)
    assert taken(pipe) == [19]
    with pytest.raises(Empty):
        pipe.unwrite()


def test_every_flush_signals():
    """The reader is never known to be awake."""
    pipe = ConflatePipe()
    pipe.write(1)
    assert not pipe.flush()
    assert not pipe.flush()


def test_the_end_follows_the_message():
    """The value given as `last` is added behind what is there."""
    end = object()
    pipe = ConflatePipe(end)
    pipe.write(1)
    pipe.write(end)
    assert taken(pipe) == [1, end]
