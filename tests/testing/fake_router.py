"""FakeRouter: a ROUTER socket of any peers, for tests of what the network thread sends."""

import errno

import zmq


class FakeRouter:
    """Keeps the frames that it is sent, unless it raises `error` or their route has `gone`."""

    def __init__(self):
        self.sent = []
        self.error = None
        self.gone = set()

    def send(self, frame, flags):
        """See `zmq.Socket.send`: the route, then its frame."""
        if self.error is not None:
            raise self.error
        if not flags & zmq.SNDMORE:
            self.sent.append(frame)
        elif frame in self.gone:
            raise zmq.ZMQError(errno.EHOSTUNREACH)
