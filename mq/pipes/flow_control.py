"""High-water marks: how many messages a connection takes, and when its reader reports.

Flow control counts messages, not parts. The writer stops when, as far as it knows, `hwm` messages
are unread; the reader reports every `lwm` messages (low-water mark).
"""

from typing import Final, NamedTuple

from _purgatory_cpython.mypyc_types import i64

# No count of messages reaches it.
_NEVER: Final = 2**62


class HighWaterMarks(NamedTuple):
    """A socket's high-water marks in messages; 0 is no limit."""

    snd: int
    rcv: int


def effective_hwms(own: HighWaterMarks, peer: HighWaterMarks | None) -> tuple[int, int]:
    """Return `hwm` and `lwm` of one end: write limit and report interval.

    An unknown `peer` takes nothing: only our own mark counts.
    """
    if peer is None:
        return own.snd, (own.rcv + 1) // 2
    # 0 on either side is no limit at all.
    outbound = own.snd + peer.rcv if own.snd and peer.rcv else 0
    inbound = own.rcv + peer.snd if own.rcv and peer.snd else 0
    return outbound, (inbound + 1) // 2


class FlowControl:
    """Enforces the high-water marks for one end of a connection.

    Marks and credit become two numbers, `_write_limit` and `_report_at`: a message costs one
    comparison on each side. For the end's thread.
    """

    __slots__ = (
        "_hwm",
        "_lwm",
        "_msgs_read",
        "_msgs_written",
        "_own_hwms",
        "_peer_hwms",
        "_peers_msgs_read",
        "_report_at",
        "_unlimited",
        "_write_limit",
    )

    def __init__(self, own: HighWaterMarks, peer: HighWaterMarks | None, unlimited: bool) -> None:
        self._own_hwms = own
        self._peer_hwms = peer  # None before bind
        self._unlimited = unlimited  # a conflating connection has no marks
        self._hwm: i64 = 0  # of written messages
        self._lwm: i64 = 0  # of read messages
        self._msgs_written: i64 = 0
        self._msgs_read: i64 = 0
        self._peers_msgs_read: i64 = 0  # as far as the peer has reported
        self._write_limit: i64 = _NEVER  # no write once `_msgs_written` reaches it
        self._report_at: i64 = _NEVER  # report when `_msgs_read` reaches it
        self._recompute_hwms()

    def _recompute_hwms(self) -> None:
        if not self._unlimited:
            self._hwm, self._lwm = effective_hwms(self._own_hwms, self._peer_hwms)
            self._recompute_write_limit()
            self._recompute_report_at(self._msgs_read)

    def _recompute_write_limit(self) -> None:
        self._write_limit = self._peers_msgs_read + self._hwm if self._hwm > 0 else _NEVER

    def _recompute_report_at(self, msgs_read: i64) -> None:
        # The next multiple of `lwm`.
        lwm = self._lwm
        self._report_at = (msgs_read // lwm + 1) * lwm if lwm > 0 else _NEVER

    def is_full(self) -> bool:
        """Whether the connection takes no more messages."""
        return self._msgs_written >= self._write_limit
