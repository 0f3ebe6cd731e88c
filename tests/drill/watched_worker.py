"""WatchedWorker: a worker that notes in its jobs' entries what it and the servers say of leases."""

from collections.abc import Callable, Mapping
from typing import Any

from purgatory.service import Worker
from purgatory.service.client.client import Client
from purgatory.service.protocol import How
from purgatory.service.worker.handler_threads import HandlerThreads
from purgatory.service.worker.worker_loop import WorkerLoop
from tests.drill.clock import now
from tests.drill.job_entry import End, Given, JobEntry
from tests.simulation.jobs.watched_calls import WatchedCalls


class _Notes:
    """A `LeaseWatcher` of one client: the server is the one that it is connected to."""

    def __init__(self, entries: Mapping[str, JobEntry], client: Client) -> None:
        self._entries = entries
        self._route = client._io_thread._connection._route

    def leased(self, worker: str, job_id: str, token: int, attempt: int, lease_ns: int) -> None:
        self._entries[job_id].given.append(Given(token, worker, self._route.current, now()))

    def keeps(self, job_id: str, token: int) -> Callable[[bool | None], None]:
        return lambda _: None

    def ends(
        self, worker: str, job_id: str, token: int, how: How, delay_ms: int
    ) -> Callable[[bool | None], None]:
        end = End(token, worker, how, now())
        self._entries[job_id].ends.append(end)

        def answered(taken: bool | None) -> None:
            end.taken, end.server, end.answered_at = taken, self._route.current, now()

        return answered


class WatchedWorker(Worker):
    """A worker called `label`, whose jobs have entries by their ids."""

    def __init__(
        self, address: str, entries: Mapping[str, JobEntry], label: str, **options: Any
    ) -> None:
        super().__init__(address, **options)
        self._entries = entries
        self.label = label
        self.alive = True

    def _make_loop(self, client: Client, threads: HandlerThreads) -> WorkerLoop:
        lease_ns = self._lease_ms * 1_000_000
        notes = _Notes(self._entries, client)
        client.job_calls = WatchedCalls(client.job_calls, self, self.label, lease_ns, notes)
        return super()._make_loop(client, threads)
