"""Commands: what the threads of a server tell each other. Small frozen values.

    the network ── Asked, Attach, Detach, More, Stop ──>  the keeper's mailbox
    the journal ── Journaled ──────────────────────────>  the keeper's mailbox
    the keeper  ── Deliver, Told, Stopped ─────────────>  the network's mailbox
    who closes  ── Close ──────────────────────────────>  the network's mailbox

A *route* is what the socket calls a connection.
"""

from msgspec import Struct

from purgatory.service.protocol import Request
from purgatory.service.store.store import Position


class Asked(Struct, frozen=True):
    """A client's request; ``size``: bytes of its frame."""

    route: bytes
    client: str
    request: Request
    size: int


class Attach(Struct, frozen=True):
    """A client has said hello, with a request of this ``seq``."""

    route: bytes
    client: str
    seq: int


class Detach(Struct, frozen=True):
    """A connection of a client has ended."""

    client: str


class More(Struct, frozen=True):
    """A connection can take outcomes again, from beyond ``after`` on."""

    route: bytes
    client: str
    after: int


class Journaled(Struct, frozen=True):
    """Rows up to these numbers are safe in the journal."""

    position: Position


class Stop(Struct, frozen=True):
    """Do what was asked before, and end."""


class Push(Struct, frozen=True):
    """Outcomes ``first`` to ``last`` for all connections of a client."""

    client: str
    first: int
    last: int
    frame: bytes


class Deliver(Struct, frozen=True):
    """What came of a turn; ``size``: bytes of the frames that were asked in it."""

    answers: list[tuple[bytes, bytes]]
    pushes: list[Push]
    size: int


class Told(Struct, frozen=True):
    """To `More`: outcomes up to ``last``; no frame: there are no others."""

    route: bytes
    frame: bytes | None
    last: int


class Stopped(Struct, frozen=True):
    """The keeper has ended: all is answered, or ``error`` has ended it."""

    error: Exception | None


class Close(Struct, frozen=True):
    """Stop accepting, answer what is in flight within so many seconds, and end."""

    seconds: float


class Recheck(Struct, frozen=True):
    """The list of who is let in has changed."""


KeeperCommand = Asked | Attach | Detach | More | Journaled | Stop
NetworkCommand = Deliver | Told | Stopped | Close | Recheck
