"""ServerParts: what a server is made of, put together over a store."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from mq import Mailbox, MailboxClosed
from purgatory.service.platform.platform import REAL_PLATFORM, Platform
from purgatory.service.protocol import Limits
from purgatory.service.server.clock import ClockSources, ServiceClock
from purgatory.service.server.commands import NetworkCommand
from purgatory.service.server.journal.journal_sink import JournalSink
from purgatory.service.server.network.network import Network
from purgatory.service.server.recovery import load_state, start_clock
from purgatory.service.server.request_handler import RequestHandler
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.server.validation import RequestValidator
from purgatory.service.store.store import Store
from purgatory.service.version import package_version


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The loops of a server's two threads, and the handler and the clock that both use in turn."""

    store_loop: StoreLoop
    network: Network
    handler: RequestHandler
    clock: ServiceClock


def build_parts(
    store: Store,
    limits: Limits,
    *,
    figures: Callable[[], dict[str, Any]],
    ended: Callable[[Exception | None], None],
    retention_ms: int,
    max_clients: int,
    max_memory: int = 0,
    registry: CollectorRegistry | None = None,
    sink: JournalSink | None = None,
    platform: Platform = REAL_PLATFORM,
    clocks: ClockSources | None = None,
) -> ServerParts:
    """Load what a store has, and put a server of it together. Raises StoreError, ServerError.

    `figures`: what the server answers when it is asked for its statistics. `ended`: see `Network`.
    The rest is of the configuration, or for tests.
    """
    validator = RequestValidator(limits)
    clock = start_clock(store, clocks)
    state = load_state("service", store, clock, registry, max_memory)
    handler = RequestHandler(state, store, validator, figures, f"purgatory {package_version()}")
    mailbox: Mailbox[NetworkCommand] = platform.mailbox()
    store_loop = StoreLoop(
        state,
        store,
        clock,
        handler,
        send=_sender(mailbox),
        retention_ms=retention_ms,
        sink=sink,
        platform=platform,
    )
    network = Network(
        validator, mailbox, store_loop, ended, max_clients=max_clients, platform=platform
    )
    return ServerParts(store_loop, network, handler, clock)


def _sender(mailbox: Mailbox[NetworkCommand]) -> Callable[[NetworkCommand], None]:
    def send(command: NetworkCommand) -> None:
        with contextlib.suppress(MailboxClosed):  # the network thread has ended, in time or not
            mailbox.send(command)

    return send
