"""Commands: immutable messages between a server's threads.

    network thread ── ClientRequest, ClientConnected, ClientDisconnected,
                      FetchOutcomes, JournalConfirmed,
                      RunTransaction, StopStoreLoop ─────>  mailbox of the store loop
    store thread   ── TransactionReplies, OutcomeFrame,
                      StoreReleased, StoreLoopStopped ───>  mailbox of the network
    journal thread ── JournalConfirmed ──────────────────>  mailbox of the network
    any thread     ── CloseServer, ReloadAllowList ──────>  mailbox of the network

The right to use state and store passes with them: to the store thread with the first command, back
with `StoreReleased`. So only the network thread sends to the store loop.

A *route* is the socket's identity of a connection.
"""

from msgspec import Struct

from purgatory.service.protocol import VERSION, Request
from purgatory.service.store.rows import JournalPosition


class ClientRequest(Struct, frozen=True):
    """Handle a client's request, a frame of `size` bytes.

    `session`: names the requests with the same count; empty for none. `own_only`: only operations
    of `client` may be seen and changed. `key`: the public key of the connection.
    """

    route: bytes
    client: str
    request: Request
    size: int
    session: str = ""
    own_only: bool = False
    key: str = ""

    @property
    def owner(self) -> str | None:
        """See `ServerState.find`."""
        return self.client if self.own_only else None


class ClientConnected(Struct, frozen=True):
    """Welcome a client, in answer to its hello, request `seq`."""

    route: bytes
    client: str
    seq: int
    version: int = VERSION
    key: str = ""


class ClientDisconnected(Struct, frozen=True):
    """Forget a client's connection, and its wishes."""

    client: str
    route: bytes = b""


class FetchOutcomes(Struct, frozen=True):
    """Read the client's outcomes beyond `after`.

    `repeated`: outcomes requested by submitting again.
    """

    route: bytes
    client: str
    after: int
    repeated: bool = False
    key: str = ""


class JournalConfirmed(Struct, frozen=True):
    """Note that the journal has all rows up to `position`."""

    position: JournalPosition


class RunTransaction(Struct, frozen=True):
    """Run a transaction."""


class StopStoreLoop(Struct, frozen=True):
    """Handle all earlier commands, then end."""


class OutcomePush(Struct, frozen=True):
    """A frame of the outcomes `first` to `last`, for all connections of a client.

    None: too many outcomes, so the connections fetch them.
    """

    client: str
    first: int
    last: int
    frame: bytes | None


class TransactionReplies(Struct, frozen=True):
    """Send replies, by route, and outcomes; `size`: of the requests, in bytes."""

    replies: list[tuple[bytes, bytes]]
    pushes: list[OutcomePush]
    size: int


class OutcomeFrame(Struct, frozen=True):
    """Answer `FetchOutcomes`: outcomes up to `last`; no frame if there are no more."""

    route: bytes
    frame: bytes | None
    last: int
    repeated: bool = False


class StoreReleased(Struct, frozen=True):
    """Tell that the store thread sleeps, after so many commands.

    `answers`: its last; a message for each could wake the network thread as often.
    """

    commands: int
    answers: "list[NetworkCommand]"


class StoreLoopStopped(Struct, frozen=True):
    """Note that the store loop has ended, by `StopStoreLoop` or by `error`."""

    error: Exception | None


class CloseServer(Struct, frozen=True):
    """Accept nothing more, answer what is in flight, end within `seconds`."""

    seconds: float


class ReloadAllowList(Struct, frozen=True):
    """Apply the new allow list to the connections."""


#: What clients cause.
ClientCommand = ClientRequest | ClientConnected | ClientDisconnected
StoreLoopCommand = ClientCommand | FetchOutcomes | JournalConfirmed | RunTransaction | StopStoreLoop
NetworkCommand = (
    TransactionReplies
    | OutcomeFrame
    | StoreReleased
    | StoreLoopStopped
    | JournalConfirmed
    | CloseServer
    | ReloadAllowList
)
