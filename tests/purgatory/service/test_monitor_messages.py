"""What libzmq reports of a connection, read as pyzmq reads it."""

import zmq
from zmq.utils.monitor import parse_monitor_message

from purgatory.service.monitor_messages import recv_monitor_message
from tests.testing.purgatory_harness import HANG


class Recorded:
    """A monitor that keeps the frames that it handed out."""

    def __init__(self, monitor):
        self._monitor, self.frames = monitor, []

    def recv_multipart(self):
        self.frames = self._monitor.recv_multipart()
        return self.frames


def test_events_of_a_connection():
    """Each event has its number and its value: a descriptor, or milliseconds until a retry."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        monitor = router.get_monitor_socket()
        recorded = Recorded(monitor)
        port = router.bind_to_random_port("tcp://127.0.0.1")
        events = []
        with context.socket(zmq.DEALER) as dealer:
            dealer.connect(f"tcp://127.0.0.1:{port}")
            while zmq.EVENT_HANDSHAKE_SUCCEEDED not in events:
                assert monitor.poll(HANG * 1000)
                event, value = recv_monitor_message(recorded)
                by_pyzmq = parse_monitor_message(recorded.frames)
                assert (event, value) == (by_pyzmq["event"], by_pyzmq["value"])
                events.append(event)
        assert events[:2] == [zmq.EVENT_LISTENING, zmq.EVENT_ACCEPTED]
        router.disable_monitor()
        monitor.close(0)
