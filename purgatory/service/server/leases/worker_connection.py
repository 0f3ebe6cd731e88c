"""WorkerConnection: a connection that asks for jobs. Used by the store thread alone."""


class WorkerConnection:
    """A connection by its `route`; `client` names the group of workers.

    `kinds`: kind -> how many attempts a job has. It holds at most `room` leases, of `lease_ms`; one
    that is `detached` holds none: it is given `room` jobs more, whose leases end by time alone.
    """

    __slots__ = ("client", "detached", "held", "kinds", "lease_ms", "room", "route", "turns")

    def __init__(self, route: bytes, client: str) -> None:
        self.route = route
        self.client = client
        self.held: dict[int, None] = {}  # numbers of jobs
        self.ask({}, 0, 0, detached=False)

    def ask(self, kinds: dict[str, int], room: int, lease_ms: int, *, detached: bool) -> None:
        """Note what the worker asks for; what it holds stays."""
        self.kinds = kinds
        self.room = room
        self.lease_ms = lease_ms
        self.detached = detached
        self.turns = list(kinds)  # the kind whose turn it is first

    @property
    def has_room(self) -> bool:
        """Whether it takes another job."""
        return self.room > (0 if self.detached else len(self.held))

    def take(self, number: int) -> None:
        """Note that a job is leased to it."""
        if self.detached:
            self.room -= 1
        else:
            self.held[number] = None
