"""Commands: what the threads of a server tell each other. Small frozen values.

    the network ── ClientRequest, ClientConnected, ClientDisconnected, FetchOutcomes,
                   StopStoreLoop ───────────────────>  the store loop's mailbox
    the journal ── JournalConfirmed ────────────────>  the store loop's mailbox
    the store loop ── TransactionReplies, OutcomeFrame,
                      StoreLoopStopped ─────────────>  the network's mailbox
    the closer ── CloseServer, ReloadAllowList ─────>  the network's mailbox

A *route* is what the socket calls a connection.
"""

from msgspec import Struct

from purgatory.service.protocol import Request
from purgatory.service.store.store import JournalPosition


class ClientRequest(Struct, frozen=True):
    """A client's request; ``size``: bytes of its frame."""

    route: bytes
    client: str
    request: Request
    size: int


class ClientConnected(Struct, frozen=True):
    """A client has said hello, with a request of this ``seq``."""

    route: bytes
    client: str
    seq: int


class ClientDisconnected(Struct, frozen=True):
    """A connection of a client has ended."""

    client: str


class FetchOutcomes(Struct, frozen=True):
    """A connection can take outcomes again, from beyond ``after`` on."""

    route: bytes
    client: str
    after: int


class JournalConfirmed(Struct, frozen=True):
    """Rows up to these numbers are safe in the journal."""

    position: JournalPosition


class StopStoreLoop(Struct, frozen=True):
    """Do what was asked before, and end."""


class OutcomePush(Struct, frozen=True):
    """Outcomes ``first`` to ``last`` for all connections of a client."""

    client: str
    first: int
    last: int
    frame: bytes


class TransactionReplies(Struct, frozen=True):
    """What came of a turn; ``size``: bytes of the frames that were asked in it."""

    replies: list[tuple[bytes, bytes]]
    pushes: list[OutcomePush]
    size: int


class OutcomeFrame(Struct, frozen=True):
    """To `FetchOutcomes`: outcomes up to ``last``; no frame: there are no others."""

    route: bytes
    frame: bytes | None
    last: int


class StoreLoopStopped(Struct, frozen=True):
    """The keeper has ended: all is answered, or ``error`` has ended it."""

    error: Exception | None


class CloseServer(Struct, frozen=True):
    """Stop accepting, answer what is in flight within so many seconds, and end."""

    seconds: float


class ReloadAllowList(Struct, frozen=True):
    """The list of who is let in has changed."""


StoreLoopCommand = (
    ClientRequest
    | ClientConnected
    | ClientDisconnected
    | FetchOutcomes
    | JournalConfirmed
    | StopStoreLoop
)
NetworkCommand = (
    TransactionReplies | OutcomeFrame | StoreLoopStopped | CloseServer | ReloadAllowList
)
