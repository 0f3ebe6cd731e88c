"""Connection: a client's connection as the network thread sees it, which alone uses it."""

from collections import deque

# Replies that a client does not read are kept up to so many; who lets more gather is cut off.
BACKLOG_FRAMES = 1000
BACKLOG_BYTES = 8 << 20


class Connection:
    """``route``: what the socket calls it; ``client``: who it said it is; ``user``: its key."""

    __slots__ = (
        "_size",
        "backlog",
        "client",
        "last_seen",
        "resume_after",
        "route",
        "streaming",
        "user",
    )

    def __init__(self, route: bytes, client: str, now: float, user: str = "") -> None:
        self.route = route
        self.user = user
        self.client = client
        self.last_seen = now  # seconds of the monotonic clock
        self.backlog: deque[bytes] = deque()  # answers that did not fit into the socket
        self._size = 0  # bytes of them
        # Live: is told outcomes as they come. Else it is told those beyond `resume_after` first.
        self.streaming = False
        self.resume_after = 0

    def keep(self, frame: bytes) -> bool:
        """Keep an answer for later; False if that would be too much."""
        self.backlog.append(frame)
        self._size += len(frame)
        return len(self.backlog) <= BACKLOG_FRAMES and self._size <= BACKLOG_BYTES

    def sent(self) -> None:
        """The first that was kept is sent."""
        self._size -= len(self.backlog.popleft())
