"""High-water marks: how many messages a connection takes, and when its reader reports.

Plain values and arithmetic, for any thread.
"""

from typing import NamedTuple


class HighWaterMarks(NamedTuple):
    """A socket's high-water marks in messages; 0 is no limit."""

    snd: int
    rcv: int


def effective_hwms(own: HighWaterMarks, peer: HighWaterMarks | None) -> tuple[int, int]:
    """How many messages one end may have unread, and after how many it reports as a reader.

    A `peer` that is not known yet takes nothing: only our own mark counts.
    """
    if peer is None:
        return own.snd, (own.rcv + 1) // 2
    # 0 on either side is no limit at all, and not a summand.
    outbound = own.snd + peer.rcv if own.snd and peer.rcv else 0
    inbound = own.rcv + peer.snd if own.rcv and peer.snd else 0
    return outbound, (inbound + 1) // 2
