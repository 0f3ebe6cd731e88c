"""Demand: which jobs a worker asks for, and how many.

Used by the worker's thread, the threads that end handlers, and the client's I/O thread.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.worker_link import Asks
from purgatory.service.errors import RequestAbandoned
from purgatory.service.worker.handlers import Handler
from purgatory.service.worker.held_jobs import HeldJob, Pace

log: logging.Logger = logging.getLogger(__name__)

#: Seconds without an answer until a warning.
PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Of one run; `flush_s`: seconds to report the last ends."""

    name: str
    address: str
    concurrency: int
    lease_ms: int
    flush_s: float


class Demand:
    """The requests of a worker of `handlers`, by kind; `send` sends them."""

    def __init__(
        self,
        settings: WorkerSettings,
        handlers: Mapping[str, Handler],
        send: "Callable[[Asks], ReplyFuture[None]]",
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._send = send
        self._monotonic = monotonic
        is_mixed = len({one.is_async for one in handlers.values()}) > 1
        self._pace = Pace(settings.concurrency * (2 if is_mixed else 1), monotonic)
        # Of kinds with a limit.
        self._paces = {
            kind: Pace(min(most, settings.concurrency), monotonic)
            for kind, handler in handlers.items()
            if (most := handler.limits.concurrency) is not None
        }
        # With fewer running handlers all kinds have a free handler.
        limits = [one.limits.concurrency or settings.concurrency for one in handlers.values()]
        self._fewest = min(settings.concurrency, *limits)
        # Else `room` limits enough.
        self._can_stall = is_mixed or bool(self._paces)
        # Kinds without a free handler: no more jobs are wanted.
        self._stalled: set[str] = set()
        self._asked: tuple[ReplyFuture[None], float] | None = None  # the last request, and when
        self._is_silent = False  # whether the log has a warning
        self._is_over = False
        # Held from the look at the fields to the sending: the last request is the latest state.
        self._asking = threading.Lock()

    @property
    def room(self) -> int:
        """See `Pace`."""
        return self._pace.room

    @property
    def is_due(self) -> bool:
        """Whether it is time to `look`."""
        return self._monotonic() >= self._pace.next_look

    def ask(self) -> None:
        """Ask for jobs. Raises Unavailable."""
        with self._asking:
            self._asked = (self._send(self._asks()), self._monotonic())

    def _asks(self) -> Asks:
        kinds = {
            kind: handler.retry.max_attempts
            for kind, handler in self._handlers.items()
            if kind not in self._stalled
        }
        rooms = {kind: pace.room for kind, pace in self._paces.items() if kind in kinds}
        room = 0 if self._is_over else self._pace.room
        return kinds, room, self._settings.lease_ms, False, rooms, True

    def end(self) -> None:
        """Ask for no more jobs. Raises Unavailable."""
        self._is_over = True
        self.ask()

    def note(self, kind: str, seconds: float) -> None:
        """Note how long a handler ran."""
        self._pace.add(seconds)
        if kind in self._paces:
            self._paces[kind].add(seconds)

    def look(self, running: list[HeldJob], now: float) -> bool:
        """Ask for more or fewer jobs, if due; True: fewer."""
        before = self._pace.room
        changed = self._pace.look(_oldest(running, now))
        for kind, pace in self._paces.items():
            of_kind = [held for held in running if held.leased.kind == kind]
            changed |= pace.look(_oldest(of_kind, now))
        if changed and not self._is_over:
            self.ask()
        return changed and self._pace.room < before

    def busy_kinds(self, running: list[HeldJob]) -> set[str]:
        """Return the kinds without a free handler."""
        if len(running) < self._fewest:
            return set()
        most = self._settings.concurrency
        handlers = self._handlers
        sorts = Counter(handlers[held.leased.kind].is_async for held in running)
        kinds = Counter(held.leased.kind for held in running)
        return {
            kind
            for kind, handler in handlers.items()
            if sorts[handler.is_async] >= most
            or kinds[kind] >= (handler.limits.concurrency or most)
        }

    def stall(self, busy: set[str], late: list[HeldJob]) -> None:
        """Ask for no more of the `busy` kinds of which jobs are `late`."""
        self._set_stalled(busy & (self._stalled | {held.leased.kind for held in late}))

    def go_on(self, running: Callable[[], list[HeldJob]]) -> None:
        """Ask again for kinds with a free handler."""
        if self._stalled:
            self._set_stalled(self._stalled & self.busy_kinds(running()))

    def _set_stalled(self, stalled: set[str]) -> None:
        if self._can_stall and stalled != self._stalled and not self._is_over:
            self._stalled = stalled
            self.ask()

    def check_answer(self) -> None:
        """Raise the server's refusal; log a missing answer."""
        if self._asked is None:
            return
        reply, since = self._asked
        name, address = self._settings.name, self._settings.address
        if reply.done():
            if isinstance(reply.exception(), RequestAbandoned):
                self.ask()
                return
            reply.result()
            if self._is_silent:
                log.warning("worker %r: the server at %s answers", name, address)
            self._is_silent = False
        elif not self._is_silent and self._monotonic() - since >= PATIENCE_S:
            self._is_silent = True
            log.warning("worker %r: no answer from a server at %s; waiting for one", name, address)


def _oldest(running: list[HeldJob], now: float) -> float:
    started = [held.started_at for held in running if held.started_at is not None]
    return now - min(started) if started else 0.0
