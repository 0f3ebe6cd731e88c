"""RememberedReplies: the replies to the latest requests of each session.

A client that has lost its connection sends the requests again that were not answered. Completing
with a limit twice, or extending twice, would not be the same as once; so the server repeats its
reply instead. Used by the store thread alone; changed by the open transaction alone.
"""

from collections import deque

from purgatory.service.server.memory import reply_bytes, session_bytes
from purgatory.service.store.changes import Changes

#: Replies remembered of a session: as many as a client may have unanswered requests.
REPLIES_PER_SESSION = 32
#: Sessions remembered, the latest, and for how long after their last request.
MAX_SESSIONS = 10_000
SESSION_MS = 600_000


class RememberedReplies:
    """Frames of replies, by session and sequence number of the request.

    `max_bytes`: if they take more, the oldest sessions are forgotten; 0: there is no such limit.
    """

    def __init__(self, max_bytes: int = 0) -> None:
        self.bytes: int = 0  # that they take
        self._max_bytes = max_bytes
        self._sessions: dict[str, _Session] = {}  # the one with the latest request is the last

    def load(self, rows: list[tuple[str, int, int, bytes]]) -> None:
        """Remember what the store has."""
        for name, seq, at_ms, frame in rows:
            self._session(name, at_ms).add(seq, frame)
            self.bytes += reply_bytes(len(frame))

    def find(self, session: str, seq: int) -> bytes | None:
        """Return the reply to a request; None if it is not remembered."""
        found = self._sessions.get(session)
        return None if found is None else found.frames.get(seq)

    def add(self, session: str, seq: int, frame: bytes, at_ms: int, changes: Changes) -> None:
        """Remember a reply, and forget the oldest of its session, or the oldest session."""
        entry = self._session(session, at_ms)
        self.bytes += reply_bytes(len(frame))
        entry.add(seq, frame)
        changes.replies += (session, seq, at_ms, bytearray(frame))
        while len(entry.seqs) > REPLIES_PER_SESSION:
            self.bytes -= reply_bytes(len(entry.frames[entry.seqs[0]]))
            changes.delete_replies.append((session, entry.pop()))
        while self._are_too_many():
            self._forget(next(iter(self._sessions)), changes)

    def _are_too_many(self) -> bool:
        sessions = len(self._sessions)
        return sessions > MAX_SESSIONS or (sessions > 1 and 0 < self._max_bytes < self.bytes)

    def take_back(self, session: str, seq: int) -> None:
        """Forget a reply that was not committed."""
        entry = self._sessions.get(session)
        if entry is not None and seq in entry.frames:
            entry.seqs.remove(seq)
            self.bytes -= reply_bytes(len(entry.frames.pop(seq)))

    def forget_old(self, now_ms: int, changes: Changes) -> None:
        """Forget the sessions whose last request is long ago."""
        while self._sessions:
            name = next(iter(self._sessions))
            if self._sessions[name].at_ms > now_ms - SESSION_MS:
                return
            self._forget(name, changes)

    def _forget(self, name: str, changes: Changes) -> None:
        entry = self._sessions.pop(name)
        self.bytes -= session_bytes(name) + sum(
            reply_bytes(len(frame)) for frame in entry.frames.values()
        )
        changes.delete_replies += [(name, seq) for seq in entry.seqs]

    def _session(self, name: str, at_ms: int) -> "_Session":
        entry = self._sessions.pop(name, None)
        if entry is None:
            entry = _Session()
            self.bytes += session_bytes(name)
        entry.at_ms = at_ms
        self._sessions[name] = entry
        return entry


class _Session:
    """The replies of one session; `at_ms` is the time of the last one."""

    __slots__ = ("at_ms", "frames", "seqs")

    def __init__(self) -> None:
        self.at_ms = 0
        self.frames: dict[int, bytes] = {}  # by sequence number
        self.seqs: deque[int] = deque()  # oldest first

    def add(self, seq: int, frame: bytes) -> None:
        self.frames[seq] = frame
        self.seqs.append(seq)

    def pop(self) -> int:
        """Forget the oldest; returns its number."""
        seq = self.seqs.popleft()
        del self.frames[seq]
        return seq
