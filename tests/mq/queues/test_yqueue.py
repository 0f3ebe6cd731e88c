"""YQueue against a plain list, and its chunks."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq.queues.yqueue import YQueue


def test_positions_count_pushes_and_pops():
    """Positions count items from 0, over chunk borders, and never wrap."""
    queue = YQueue(2)
    assert (queue.front, queue.back) == (0, 0)
    for i in range(5):
        queue.push(i)
    assert (queue.front, queue.back) == (0, 5)
    assert [queue.pop() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert (queue.front, queue.back) == (5, 5)


def test_unpush_returns_the_last_value_across_a_chunk_border():
    """unpush takes back what was pushed last, also when that began a chunk."""
    queue = YQueue(2)
    for i in range(3):
        queue.push(i)
    assert queue.unpush() == 2
    assert queue.unpush() == 1
    queue.push("x")
    assert [queue.pop(), queue.pop()] == [0, "x"]
    assert queue.front == queue.back == 2


def test_a_popped_value_is_not_kept_alive():
    """Slots of values taken, either way, are cleared."""

    class Thing:
        pass

    queue = YQueue(4)
    popped, unpushed = Thing(), Thing()
    queue.push(popped)
    queue.push(unpushed)
    seen = [weakref.ref(popped), weakref.ref(unpushed)]
    queue.unpush()
    queue.pop()
    del popped, unpushed
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_one_freed_chunk_is_kept_and_used_again():
    """The chunk freed last is the spare, and the next chunk needed is that one."""
    queue = YQueue(2)
    for i in range(4):
        queue.push(i)
    freed = queue._front_chunk
    for _ in range(3):
        queue.pop()
    assert list(queue._spare) == [freed]
    queue.push(4)
    assert queue._back_chunk is freed
    assert [queue.pop(), queue.pop()] == [3, 4]


def test_unpush_frees_its_chunk_instead_of_sparing_it():
    """A chunk emptied by unpush does not become the spare: the reader may still be freeing one."""
    queue = YQueue(1)
    queue.push(0)
    queue.push(1)
    queue.unpush()
    assert list(queue._spare) == []


def test_a_chunk_holds_at_least_one():
    """chunk_size below 1 is refused."""
    with pytest.raises(ValueError, match="chunk_size"):
        YQueue(0)


@given(st.integers(1, 5), st.lists(st.sampled_from(["push", "pop", "unpush", "peek"])))
def test_behaves_as_a_list(chunk_size, operations):
    """Every sequence of operations gives what a list gives."""
    queue, model, n = YQueue(chunk_size), [], 0
    for operation in operations:
        if operation == "push":
            queue.push(n)
            model.append(n)
            n += 1
        elif model:
            if operation == "pop":
                assert queue.pop() == model.pop(0)
            elif operation == "peek":
                assert queue.peek() == model[0]
            else:
                assert queue.unpush() == model.pop()
        assert queue.back - queue.front == len(model)
