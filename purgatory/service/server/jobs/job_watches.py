"""JobWatches: the connections that watch jobs. Store thread alone; any may read `count`."""

from typing import Final, TypeAlias

from purgatory.service.errors import Refused, ServerBusy
from purgatory.service.server.memory import text_bytes
from purgatory.service.server.records.job_record import JobRecord

# In the class, `bytes` is an attribute.
_Route: TypeAlias = bytes

#: Watched jobs of a connection, and of all, at most.
PER_CONNECTION: Final = 1 << 15
MOST: Final = 1 << 18
_WATCH_BYTES: Final = 300


class JobWatches:
    """Watched jobs, by id and by route, until their ends."""

    def __init__(self) -> None:
        # With the owner: an id may become another client's.
        self._by_id: dict[str, dict[_Route, str | None]] = {}
        self._by_route: dict[_Route, dict[str, None]] = {}
        self.count: int = 0
        self.bytes: int = 0
        #: Ended jobs, with the routes to tell.
        self.ended: list[tuple[JobRecord, list[_Route]]] = []

    def add(self, route: _Route, job_ids: list[str], owner: str | None = None) -> Refused | None:
        """Watch jobs for a connection; return why it is refused. `owner`: None for all clients."""
        watched = self._by_route.get(route, {})
        new = {job_id for job_id in job_ids if job_id not in watched}
        if len(watched) + len(new) > PER_CONNECTION:
            return ServerBusy(f"the connection watches {len(watched)} jobs, and would watch "
                                f"{len(new)} more; expected at most {PER_CONNECTION}")  # fmt: skip
        if self.count + len(new) > MOST:
            return ServerBusy(f"{self.count} jobs are watched; expected at most {MOST}")
        for job_id in new:
            self._by_route.setdefault(route, {})[job_id] = None
            self.bytes += _WATCH_BYTES + text_bytes(job_id)
        self.count += len(new)
        for job_id in job_ids:
            self._by_id.setdefault(job_id, {})[route] = owner
        return None

    def stop(self, route: _Route, job_ids: list[str]) -> None:
        """Stop watching some jobs."""
        for job_id in job_ids:
            if job_id in self._by_route.get(route, {}):
                self._remove(route, job_id)

    def forget(self, route: _Route) -> None:
        """Forget a connection."""
        for job_id in list(self._by_route.get(route, ())):
            self._remove(route, job_id)

    def _remove(self, route: _Route, job_id: str) -> None:
        watched, routes = self._by_route[route], self._by_id[job_id]
        del watched[job_id], routes[route]
        if not watched:
            del self._by_route[route]
        if not routes:
            del self._by_id[job_id]
        self.count -= 1
        self.bytes -= _WATCH_BYTES + text_bytes(job_id)

    def note_end(self, job: JobRecord) -> None:
        """Note that a job's end is on disk."""
        watching = self._by_id.get(job.op_id, {}).items()
        routes = [route for route, owner in watching if owner in (None, job.client)]
        if routes:
            self.ended.append((job, routes))
            for route in routes:
                self._remove(route, job.op_id)
