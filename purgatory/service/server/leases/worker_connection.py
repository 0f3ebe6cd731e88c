"""WorkerConnection: what a worker asks for and holds. Store thread alone."""

from purgatory.service.protocol import Work


class WorkerConnection:
    """A worker's connection, by its `route`.

    `kinds`: kind -> attempts of a job. It holds at most `room` leases, of `lease_ms`; `kind_rooms`
    limits kinds. A `detached` worker gets `room` more jobs, whose leases end by time alone.
    `begins`: it reports begun handlers.
    """

    def __init__(self, route: bytes) -> None:
        self.route: bytes = route
        self.held: dict[int, str] = {}  # numbers of jobs -> kinds
        self.detached_leases: int = 0
        self.has_lapsed: bool = False  # a lease ended by time, and no request came since
        self.ask(Work(0, {}, 0, 0))

    def ask(self, work: Work) -> None:
        """Replace the worker's wishes; its jobs stay."""
        self.kinds: dict[str, int] = work.kinds
        self.room: int = work.room
        self.lease_ms: int = work.lease_ms
        self.detached: bool = work.detached
        self.begins: bool = work.begins and not work.detached
        self.turns: list[str] = list(work.kinds)  # the next kind first
        self.kind_rooms: dict[str, int] = work.kind_rooms
        self._held_of: dict[str, int] = {}  # jobs held, by kind of `kind_rooms`
        if self.kind_rooms:
            for kind in self.held.values():
                self._count(kind, 1)

    def _count(self, kind: str, more: int) -> None:
        if kind in self.kind_rooms:
            self._held_of[kind] = self._held_of.get(kind, 0) + more

    @property
    def has_room(self) -> bool:
        """Whether it takes a job."""
        return self.room > (0 if self.detached else len(self.held)) and not self.has_lapsed

    @property
    def is_at_work(self) -> bool:
        """Whether it asks for jobs or has some: a gateway stays connected without programs."""
        return not self.has_lapsed and (self.room > 0 or bool(self.held or self.detached_leases))

    def has_room_for(self, kind: str) -> bool:
        """Whether it takes a job of a kind, if it `has_room`."""
        most = self.kind_rooms.get(kind)
        return most is None or self._held_of.get(kind, 0) < most

    def take(self, number: int, kind: str) -> None:
        """Note a job leased to the worker."""
        if self.detached:
            self.room -= 1
            self.detached_leases += 1
            return
        self.held[number] = kind
        if self.kind_rooms:
            self._count(kind, 1)

    def release(self, number: int) -> None:
        """Note that the worker holds a job no longer."""
        kind = self.held.pop(number, None)
        if kind is None:
            self.detached_leases -= 1
        elif self.kind_rooms:
            self._count(kind, -1)
