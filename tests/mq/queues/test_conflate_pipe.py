"""ConflatePipe: one slot, the last message wins."""

import pytest

from mq.queues.ypipe import ConflatePipe, Empty


def test_the_last_value_wins():
    """Of 20 values written before a read, the last is read, and then nothing."""
    pipe = ConflatePipe()
    for i in range(20):
        pipe.write(i)
    assert pipe.check_read()
    assert pipe.probe() == pipe.read() == 19
    assert not pipe.check_read()
    for nothing in (pipe.read, pipe.probe, pipe.unwrite):
        with pytest.raises(Empty):
            nothing()


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
    assert [pipe.read(), pipe.read()] == [1, end]
