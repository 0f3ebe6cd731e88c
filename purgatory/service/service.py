"""The name of `purgatory.service.daemon` in earlier versions; kept for programs that import it."""

from purgatory.service.daemon import ServiceDaemon as Service

__all__ = ["Service"]
