"""WorkerConnection: a connection that asks for jobs. Used by the store thread alone."""


class WorkerConnection:
    """A connection by its `route`; `client` names the group of workers.

    `kinds`: kind -> how many attempts a job has. It holds at most `room` leases, of `lease_ms`.
    """

    __slots__ = ("client", "held", "kinds", "lease_ms", "room", "route", "turns")

    def __init__(self, route: bytes, client: str) -> None:
        self.route = route
        self.client = client
        self.held: dict[int, None] = {}  # numbers of jobs
        self.ask({}, 0, 0)

    def ask(self, kinds: dict[str, int], room: int, lease_ms: int) -> None:
        """Note what the worker asks for; what it holds stays."""
        self.kinds = kinds
        self.room = room
        self.lease_ms = lease_ms
        self.turns = list(kinds)  # the kind whose turn it is first

    @property
    def has_room(self) -> bool:
        """Whether it takes another job."""
        return len(self.held) < self.room
