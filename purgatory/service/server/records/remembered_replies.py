"""RememberedReplies: the replies to the latest requests of each session.

After a loss of the connection a client repeats unanswered requests. Completing with a limit, or
extending, is not idempotent; so the server repeats the reply. Nothing is forgotten early: beyond a
client's bounds, the server refuses further sessions. The open transaction changes the replies.
Store thread alone.
"""

from collections import OrderedDict
from typing import Final

from purgatory.service.errors import TooManySessions
from purgatory.service.server.memory import reply_bytes, session_bytes
from purgatory.service.server.validation import shown
from purgatory.service.store.changes import Changes

#: Replies of a session: a client has no more unanswered requests.
REPLIES_PER_SESSION = 32
#: Sessions of a client, and for how many milliseconds after their last request.
SESSIONS_PER_CLIENT = 10_000
SESSION_MS = 600_000
FORGET_AT_ONCE = 100


def session_key(client: str, session: str) -> str:
    """Return the server's name of a client's session."""
    return f"{len(client)}:{client}{session}"


def owner_of(key: str) -> str:
    """Return a session's client; empty: the name is an older server's."""
    length, colon, rest = key.partition(":")
    return rest[: int(length)] if colon and length.isdecimal() else ""


class RememberedReplies:
    """Frames of replies, by session and sequence number of the request.

    `max_bytes`: their bound; 0: none. Half of it is for the first clients; each client has an equal
    part of the other half.
    """

    def __init__(self, max_bytes: int = 0) -> None:
        self.bytes: int = 0
        self._half = max_bytes // 2
        # The latest used last. (A dict finds its first entry by a scan of removed ones.)
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._clients: dict[str, _ClientShare] = {}
        # Of the open transaction, for a roll-back: added (session, seq); evicted replies and
        # dropped sessions, in order.
        self._added: set[tuple[str, int]] = set()
        self._evicted: list[tuple[str, int, bytes]] = []  # session, seq, frame
        self._dropped: list[tuple[str, _Session]] = []

    def load(self, rows: list[tuple[str, int, int, bytes]]) -> None:
        """Remember the replies of the store."""
        for key, seq, at_ms, frame in rows:
            session = self._session(key, at_ms)
            session.frames[seq] = frame
            self._count(session.owner, reply_bytes(len(frame)))

    def key(self, client: str, session: str) -> str:
        """Return a session's name; older servers' names stay."""
        known = self._sessions.get(session)
        if known is not None and not known.owner.name:
            return session
        return session_key(client, session)

    def find(self, key: str, seq: int) -> bytes | None:
        """Return the remembered reply, if any."""
        found = self._sessions.get(key)
        return None if found is None else found.frames.get(seq)

    def check_room(self, client: str, key: str) -> None:
        """Raise TooManySessions at a client's bounds."""
        found = self._sessions.get(key)
        if found is not None and len(found.frames) >= REPLIES_PER_SESSION:
            return  # the new reply replaces the oldest
        share = self._clients.get(client, _NOBODY)
        if found is None and share.sessions >= SESSIONS_PER_CLIENT:
            raise _too_many(client, f"expected at most {SESSIONS_PER_CLIENT}", share)
        if self._half and self.bytes >= self._half:
            most = self._half // max(1, len(self._clients))
            if share.bytes >= most:
                raise _too_many(client, f"expected at most {most} bytes", share)

    def add(self, key: str, seq: int, frame: bytes, at_ms: int, changes: Changes) -> None:
        """Remember a reply; forget the session's oldest."""
        entry = self._session(key, at_ms)
        self._count(entry.owner, reply_bytes(len(frame)))
        entry.frames[seq] = frame
        self._added.add((key, seq))
        changes.replies += (key, seq, at_ms, bytearray(frame))
        while len(entry.frames) > REPLIES_PER_SESSION:
            oldest, oldest_frame = entry.frames.popitem(last=False)
            self._count(entry.owner, -reply_bytes(len(oldest_frame)))
            self._evicted.append((key, oldest, oldest_frame))
            changes.delete_replies.append((key, oldest))

    def is_new(self, key: str, seq: int) -> bool:
        """Whether the open transaction has added a reply."""
        return (key, seq) in self._added

    def publish(self) -> None:
        """Keep committed changes."""
        self._added.clear()
        self._evicted.clear()
        self._dropped.clear()

    def roll_back(self) -> None:
        """Forget added replies; bring back forgotten ones."""
        for key, seq, frame in reversed(self._evicted):
            entry = self._sessions[key]
            entry.frames[seq] = frame
            entry.frames.move_to_end(seq, last=False)
            self._count(entry.owner, reply_bytes(len(frame)))
        for key, seq in self._added:
            self._take_back(key, seq)
        for key, entry in reversed(self._dropped):
            self._restore(key, entry)
        self.publish()

    def _take_back(self, key: str, seq: int) -> None:
        entry = self._sessions.get(key)
        if entry is not None and seq in entry.frames:
            self._count(entry.owner, -reply_bytes(len(entry.frames.pop(seq))))
            if not entry.frames:
                self._drop(key)

    def forget_old(self, now_ms: int, changes: Changes) -> bool:
        """Forget some old sessions; return whether others may be left."""
        for _ in range(FORGET_AT_ONCE):
            key = next(iter(self._sessions), None)
            if key is None or self._sessions[key].at_ms > now_ms - SESSION_MS:
                return False
            changes.delete_replies += [(key, seq) for seq in self._sessions[key].frames]
            self._dropped.append((key, self._drop(key)))
        return True

    def _drop(self, key: str) -> "_Session":
        entry = self._sessions.pop(key)
        owner = entry.owner
        owner.sessions -= 1
        self._count(owner, -_bytes_of(key, entry))
        if not owner.sessions:
            del self._clients[owner.name]
        return entry

    def _restore(self, key: str, entry: "_Session") -> None:
        """Bring back a session, as the least recently used."""
        entry.owner = self._owner(entry.owner.name)
        self._count(entry.owner, _bytes_of(key, entry))
        self._sessions[key] = entry
        self._sessions.move_to_end(key, last=False)

    def _session(self, key: str, at_ms: int) -> "_Session":
        """Return a session, perhaps new, as the latest used."""
        entry = self._sessions.pop(key, None)
        if entry is None:
            owner = self._owner(owner_of(key))
            entry = _Session(owner)
            self._count(owner, session_bytes(key))
        entry.at_ms = at_ms
        self._sessions[key] = entry
        return entry

    def _owner(self, name: str) -> "_ClientShare":
        owner = self._clients.get(name)
        if owner is None:
            owner = self._clients[name] = _ClientShare(name)
        owner.sessions += 1
        return owner

    def _count(self, owner: "_ClientShare", size: int) -> None:
        owner.bytes += size
        self.bytes += size


def _bytes_of(key: str, entry: "_Session") -> int:
    return session_bytes(key) + sum(reply_bytes(len(frame)) for frame in entry.frames.values())


def _too_many(client: str, expected: str, share: "_ClientShare") -> TooManySessions:
    return TooManySessions(
        f"the server remembers {share.sessions} sessions of client {shown(client)}, "
        f"{share.bytes} bytes; {expected}; a session is forgotten "
        f"{SESSION_MS // 60_000} minutes after its last request"
    )


class _ClientShare:
    __slots__ = ("bytes", "name", "sessions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sessions = 0
        self.bytes = 0


_NOBODY: Final = _ClientShare("")


class _Session:
    __slots__ = ("at_ms", "frames", "owner")

    def __init__(self, owner: _ClientShare) -> None:
        self.owner = owner
        self.at_ms = 0
        self.frames: OrderedDict[int, bytes] = OrderedDict()  # by sequence number, oldest first
