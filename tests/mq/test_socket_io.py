"""Send and recv of a handle: frames, buffers, parts received into a buffer."""

from array import array

import pytest

import mq as zmq


def test_sent_and_received_frames(pair):
    """copy=False gives Frames, with `more`; a frame can be sent again and again."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    frame = zmq.Frame(b"part")
    a.send(frame, zmq.SNDMORE)
    a.send(frame)
    first, second = b.recv(copy=False), b.recv(copy=False)
    assert (first.bytes, first.more, second.more) == (b"part", True, False)
    assert (first.get(zmq.MORE), second.get(zmq.MORE)) == (1, 0)
    with pytest.raises(zmq.ZMQError):
        first.get("User-Id")


def test_buffers_are_sent_as_bytes(pair):
    """bytearray, memoryview and array arrive as bytes; what is changed later does not matter."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    data = bytearray(b"hello")
    for thing in (data, memoryview(data), array("B", data)):
        a.send(thing)
    data[:] = b"other"
    assert [b.recv() for _ in range(3)] == [b"hello"] * 3


def test_large_buffers_are_shared_without_copy(pair):
    """With copy=False a large buffer is not copied on its way."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    data = bytearray(100_000)
    a.send(data, copy=False)
    data[0] = 1
    assert b.recv()[0] == 1


def test_recv_into(pair):
    """The part is written into the buffer, and its full size returned."""
    a, b = pair(zmq.PAIR, zmq.PAIR)
    a.send_multipart([b"hello", b"world", b"rest"])
    words = array("Q", [0])
    assert b.recv_into(words) == 5
    assert words.tobytes()[:5] == b"hello"
    short = bytearray(3)
    assert b.recv_into(short, nbytes=2) == 5
    assert short == b"wo\0"
    assert b.recv_into(bytearray()) == 4
    for bad, error in ((b"readonly", BufferError), (5, TypeError)):
        with pytest.raises(error):
            b.recv_into(bad)
    with pytest.raises(ValueError, match="too big"):
        b.recv_into(short, nbytes=4)
    with pytest.raises(ValueError, match="negative"):
        b.recv_into(short, nbytes=-1)


def test_a_buffer_in_fortran_order_is_sent_as_it_is_in_memory(pair):
    """A receiver that knows the order has the same array; to receive into one is refused."""
    np = pytest.importorskip("numpy")
    one, two = pair(zmq.PAIR, zmq.PAIR)
    numbers = np.arange(6, dtype=np.uint8).reshape((2, 3), order="F")
    for copy in (True, False):
        one.copy_threshold = 0
        one.send(numbers, copy=copy)
        received = np.frombuffer(two.recv(), dtype=np.uint8).reshape((2, 3), order="F")
        assert received.tolist() == numbers.tolist()
        one.send(numbers, copy=copy)
        assert two.recv(copy=False).bytes == numbers.tobytes("A")
    one.send(b"123456")
    with pytest.raises(BufferError, match="Fortran"):
        two.recv_into(np.empty((2, 3), np.uint8, "F"))


@pytest.mark.parametrize("data", [b"x", bytearray(b"x")])
@pytest.mark.parametrize("option", [{"routing_id": 5}, {"group": "g"}], ids=repr)
def test_options_of_networks_are_refused_for_all_data(pair, data, option):
    """Also for bytes, the quickest way."""
    one, _ = pair(zmq.PAIR, zmq.PAIR)
    with pytest.raises(zmq.ZMQError) as caught:
        one.send(data, **option)
    assert caught.value.errno == zmq.ENOTSUP
