"""The clients of a server and their outcomes, in memory.

Store thread alone; any thread may call `ClientRegistry.depths`.
"""

from bisect import bisect_right
from typing import NamedTuple

from _purgatory_cpython.mypyc_types import i64
from purgatory.service.protocol import MADE_UP
from purgatory.service.server.memory import client_bytes
from purgatory.service.server.records.job_record import JobRecord


class ClientRecord:
    """A client with operations, outcomes or connections."""

    __slots__ = ("_snapshot", "connections", "count", "name", "unacknowledged")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.count: i64 = 0  # pending operations and unacknowledged outcomes
        self.connections: int = 0
        self.unacknowledged: dict[int, OutcomeRecord] = {}  # by sequence number, ascending
        self._snapshot: list[int] = []  # earlier keys of it, to bisect

    def seqs_after(self, seq: int, limit: int) -> list[int]:
        """Return up to `limit` outcomes' sequence numbers above `seq`, ascending.

        Some may be acknowledged meanwhile.
        """
        if not self._snapshot or self._snapshot[-1] <= seq:
            self._snapshot = []
            if not self.unacknowledged or next(reversed(self.unacknowledged)) <= seq:
                return []
            self._snapshot = list(self.unacknowledged)
        start = bisect_right(self._snapshot, seq)
        return self._snapshot[start : start + limit]


class OutcomeRecord:
    """An outcome with rows in the database.

    `seq` is the sequence number, `number` the operation's; `ended_ms`: when the end was noticed.
    `job`: the outcome is not sent to the client but, if expired, leased to a worker. `unique_ms`:
    how long the id is remembered after the end, or MADE_UP; `until_ms`: until when, or 0.
    """

    __slots__ = (
        "client",
        "ended_ms",
        "is_job",
        "job",
        "number",
        "op_id",
        "outcome",
        "seq",
        "unique_ms",
        "until_ms",
    )

    def __init__(
        self,
        seq: int,
        number: int,
        op_id: str,
        client: ClientRecord,
        outcome: str,
        ended_ms: int,
        job: JobRecord | None = None,
    ) -> None:
        self.job: JobRecord | None = job
        self.is_job: bool = job is not None
        self.seq: int = seq
        self.number: int = number
        self.op_id: str = op_id
        self.client: ClientRecord = client
        self.outcome: str = outcome
        self.ended_ms: int = ended_ms
        self.unique_ms: int = MADE_UP
        self.until_ms: int = 0

    def end_period(self, unique_ms: int, ended_ms: int) -> None:
        """Set how long the id is remembered."""
        self.unique_ms = unique_ms
        if unique_ms >= 0:
            self.until_ms = ended_ms + unique_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether the id is free: the outcome acknowledged, the period over."""
        return 0 < self.until_ms <= now_ms and self.seq not in self.client.unacknowledged

    def at_ms(self, deadline_ms: int) -> int:
        """Return the outcome's time: of an expiry the deadline, however late."""
        return deadline_ms if self.outcome == "expired" else self.ended_ms


class ClientDepths(NamedTuple):
    """The number of clients, and the largest count of operations and outcomes of a client."""

    clients: int
    largest: int


class ClientRegistry:
    """A server's clients, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, ClientRecord] = {}
        self.bytes: int = 0  # without operations and outcomes

    def record(self, name: str) -> ClientRecord:
        """Return a client's record, perhaps new."""
        client = self.by_name.get(name)
        if client is None:
            client = self.by_name[name] = ClientRecord(name)
            self.bytes += client_bytes(name)
        return client

    def depths(self) -> ClientDepths:
        """Return the depths. O(clients)."""
        counts = [client.count for client in list(self.by_name.values())]
        return ClientDepths(len(counts), max(counts, default=0))

    def drop_if_idle(self, client: ClientRecord) -> None:
        """Remove a client without operations, outcomes and connections."""
        if not client.count and not client.connections and client.name in self.by_name:
            del self.by_name[client.name]
            self.bytes -= client_bytes(client.name)
