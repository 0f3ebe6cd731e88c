"""Commands: what the threads of a server tell each other. Small frozen values.

    the network ── Asked, Attach, Detach, More, Stop ──>  the keeper's mailbox
    the journal ── Journaled ──────────────────────────>  the keeper's mailbox
    the keeper  ── Deliver, Told, Stopped ─────────────>  the network's mailbox
    who closes  ── Close ──────────────────────────────>  the network's mailbox

A *route* is what the socket calls a connection.
"""

from dataclasses import dataclass

from purgatory.service.protocol import Request
from purgatory.store import Position


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's request; ``size``: bytes of its frame."""

    route: bytes
    client: str
    request: Request
    size: int


@dataclass(frozen=True, slots=True)
class Attach:
    """A client has said hello, with a request of this ``seq``."""

    route: bytes
    client: str
    seq: int


@dataclass(frozen=True, slots=True)
class Detach:
    """A connection of a client has ended."""

    client: str


@dataclass(frozen=True, slots=True)
class More:
    """A connection can take outcomes again, from beyond ``after`` on."""

    route: bytes
    client: str
    after: int


@dataclass(frozen=True, slots=True)
class Journaled:
    """Rows up to these numbers are safe in the journal."""

    position: Position


@dataclass(frozen=True, slots=True)
class Stop:
    """Do what was asked before, and end."""


@dataclass(frozen=True, slots=True)
class Push:
    """Outcomes ``first`` to ``last`` for all connections of a client."""

    client: str
    first: int
    last: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Deliver:
    """What came of a turn; ``size``: bytes of the frames that were asked in it."""

    answers: list[tuple[bytes, bytes]]
    pushes: list[Push]
    size: int


@dataclass(frozen=True, slots=True)
class Told:
    """To `More`: outcomes up to ``last``; no frame: there are no others."""

    route: bytes
    frame: bytes | None
    last: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The keeper has ended: all is answered, or ``error`` has ended it."""

    error: Exception | None


@dataclass(frozen=True, slots=True)
class Close:
    """Stop accepting, answer what is in flight within so many seconds, and end."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Recheck:
    """The list of who is let in has changed."""


KeeperCommand = Asked | Attach | Detach | More | Journaled | Stop
NetworkCommand = Deliver | Told | Stopped | Close | Recheck
