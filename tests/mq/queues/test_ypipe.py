"""YPipe: what the reader may see, when the writer owes a signal; against a plain list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mq
from mq.queues.ypipe import ConflatePipe, Empty, YPipe
from timingwheel.lowlevel import ATOMIC_SECTIONS


def test_unflushed_write_is_unreadable():
    """A value written and not flushed cannot be read."""
    pipe = YPipe()
    pipe.write(1)
    assert not pipe.check_read()
    with pytest.raises(IndexError):
        pipe.read()


def test_flushed_write_is_readable():
    """A value written and flushed can be read."""
    pipe = YPipe()
    pipe.write(1)
    assert pipe.flush()
    assert pipe.check_read()
    assert pipe.read() == 1


def test_flush_says_when_the_reader_sleeps():
    """flush returns False exactly once after check_read has found nothing."""
    pipe = YPipe()
    assert not pipe.check_read()
    assert pipe.asleep
    pipe.write(1)
    assert not pipe.flush()
    pipe.write(2)
    assert pipe.flush()
    assert [pipe.read(), pipe.read()] == [1, 2]


def test_flush_of_nothing_owes_nothing():
    """Without a complete value to flush, True, even to a sleeping reader."""
    pipe = YPipe()
    pipe.check_read()
    assert pipe.flush()
    pipe.write(1, incomplete=True)
    assert pipe.flush()
    assert pipe.asleep


def test_incomplete_values_wait_for_the_last():
    """Parts of a message are flushed together, when the last is written."""
    pipe = YPipe()
    pipe.write("a", incomplete=True)
    pipe.write("b", incomplete=True)
    pipe.flush()
    assert not pipe.check_read()
    pipe.write("c")
    pipe.flush()
    assert [pipe.read() for _ in range(3)] == ["a", "b", "c"]


def test_unwrite_takes_back_incomplete_values_only():
    """unwrite never passes a complete value, flushed or not."""
    pipe = YPipe()
    pipe.write("whole")
    pipe.write("a", incomplete=True)
    pipe.write("b", incomplete=True)
    assert pipe.unwrite() == "b"
    assert pipe.unwrite() == "a"
    with pytest.raises(Empty):
        pipe.unwrite()
    pipe.flush()
    assert pipe.read() == "whole"


def test_check_read_prefetches_under_one_lock():
    """The lock is taken once a flush and once a prefetch, never once a value."""

    class Lock:
        taken = 0

        def __enter__(self):
            self.taken += 1

        def __exit__(self, *args):
            pass

    lock = Lock()
    pipe = YPipe(lock=lock)
    for i in range(100):
        pipe.write(i)
    pipe.flush()
    assert [pipe.read() for _ in range(100)] == list(range(100))
    assert lock.taken == 2
    assert (YPipe()._lock is None) == ATOMIC_SECTIONS


def test_probe_leaves_the_value():
    """It returns the next value, which stays until `drop`; None when there is none."""
    pipe = YPipe()
    assert pipe.probe_or_none() is None
    pipe.write(1)
    pipe.flush()
    assert pipe.probe_or_none() == pipe.probe_or_none() == 1
    pipe.drop()
    assert pipe.probe_or_none() is None


def test_building_blocks_are_public():
    """The queue layers can be imported from `mq`."""
    assert mq.YPipe is YPipe
    assert issubclass(mq.Empty, IndexError)


@given(
    st.integers(1, 4),
    st.lists(
        st.sampled_from(["write", "part", "unwrite", "flush", "check", "read", "probe", "drop"])
    ),
)
def test_behaves_as_lists(chunk_size, operations):  # noqa: C901 - a model is a list of cases
    """Against a model of three lists: readable, complete, incomplete."""
    pipe = YPipe(chunk_size)
    readable, complete, incomplete = [], [], []
    asleep, n = False, 0
    for operation in operations:
        if operation in ("write", "part"):
            pipe.write(n, incomplete=operation == "part")
            incomplete.append(n)
            n += 1
            if operation == "write":
                complete, incomplete = complete + incomplete, []
        elif operation == "unwrite":
            if incomplete:
                assert pipe.unwrite() == incomplete.pop()
        elif operation == "flush":
            assert pipe.flush() == (not (asleep and complete))
            asleep = asleep and not complete
            readable, complete = readable + complete, []
        elif operation in ("check", "probe", "drop", "read"):
            if not readable:
                asleep = True
                with pytest.raises(Empty):
                    pipe.read()
            elif operation == "check":
                assert pipe.check_read()
            elif operation in ("probe", "drop"):
                assert pipe.probe_or_none() == readable[0]
                if operation == "drop":
                    pipe.drop()
                    del readable[0]
            else:
                assert pipe.read() == readable.pop(0)
        assert pipe.asleep == asleep
        pipe._check()


def test_a_conflating_pipe_keeps_the_last_value():
    """One that came after the look stays; the final value follows the last one."""
    pipe = ConflatePipe("end")
    assert pipe.probe_or_none() is None
    for value in ("one", "two"):
        pipe.write(value)
    assert pipe.probe_or_none() == "two"
    pipe.write("three")
    pipe.drop()
    assert pipe.probe_or_none() == "three"
    pipe.write("end")
    pipe.drop()
    assert pipe.probe_or_none() == "end"
    pipe.drop()
    assert pipe.probe_or_none() is None
    assert pipe.flush() is False
