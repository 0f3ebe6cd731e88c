"""Server: the threads of the service, put together; `purgatory serve` without the command line.

Two threads: the network's owns the socket, the store's (the *keeper*) the database and everything
that waits; they talk by commands. Made, started and closed by one thread; `stats` is for any.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from purgatory.service.config import Config
from purgatory.service.sink import Sink
from purgatory.service.stats import ServerStats

if TYPE_CHECKING:
    import zmq

    from purgatory import Purgatory
    from timingwheel import Timer

#: Told of the context and the socket before it is bound: sets CURVE, starts a ZAP handler.
Secure = Callable[["zmq.Context[zmq.Socket[bytes]]", "zmq.Socket[bytes]"], None]


class Server:
    """A timer service. ``registry``: where its metrics are shown, default one of its own.

    ``sink``: its journal. ``secure``: see `Secure`. After `start` it serves until `close`, or until
    its disk fails it: then `failure` says how.
    """

    def __init__(
        self,
        config: Config,
        *,
        registry: CollectorRegistry | None = None,
        sink: Sink | None = None,
        secure: Secure | None = None,
    ) -> None:
        self.config = config
        self.registry = CollectorRegistry() if registry is None else registry
        self._sink = sink
        self._secure = secure
        self._reloads: list[Callable[[], None]] = []
        #: The address that is bound, with its port; empty before `start`.
        self.address = ""
        #: Why it ended by itself; None if it has not.
        self.failure: Exception | None = None

    @property
    def purgatory(self) -> "Purgatory":
        """What waits; for its figures only. There from `start` on."""
        raise NotImplementedError

    @property
    def timer(self) -> "Timer":
        """Its timer; for its figures only."""
        return self.purgatory.timer

    def start(self) -> None:
        """Open the data, load what waits, listen. Raises ServerError, StoreError, ConfigError."""
        raise NotImplementedError

    def stats(self) -> ServerStats:
        """The figures of this moment; O(1), from any thread."""
        raise NotImplementedError

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended by itself; False if it runs on after ``timeout`` seconds."""
        raise NotImplementedError

    def on_reload(self, call: Callable[[], None]) -> None:
        """Have something called at each `reload`."""
        self._reloads.append(call)

    def reload(self) -> None:
        """Read again what may change meanwhile (the allow-list); SIGHUP does this."""
        for call in self._reloads:
            call()

    def close(self, timeout: float | None = None) -> None:
        """Stop accepting, answer what is in flight, commit, end the threads. May be repeated.

        Takes ``timeout`` seconds at most, default ``config.close_timeout``. What waits stays on
        disk.
        """
        raise NotImplementedError
