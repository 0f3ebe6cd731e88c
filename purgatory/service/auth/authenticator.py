"""Who may talk to a server. CURVE on its socket, and a list of the clients let in.

Refusal happens in the handshake, by ZeroMQ's authentication protocol: a peer without an allowed key
never gets a message through, and one that speaks no CURVE at all not even a handshake. pyzmq's
`ThreadAuthenticator` answers in the thread ``purgatory-zap``. Other threads make, reload and close
the guard.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import zmq
from zmq.auth.thread import ThreadAuthenticator

from purgatory.service.auth.key_store import SERVER, KeyPair, KeysError, KeyStore
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.config import Config

log = logging.getLogger(__name__)

# Without a domain ZeroMQ lets everybody in when no authenticator answers.
_DOMAIN: Final = "purgatory"
# Keys of strangers that are told in the log, each once, until the list is read again.
_MAX_LOGGED_KEYS: Final = 100


class SocketSecurity(Protocol):
    """What guards a server's socket."""

    def __call__(self, context: zmq.Context[Any], socket: zmq.Socket[Any], /) -> None:
        """Guard a socket that is not bound yet: set CURVE, start to answer for the context."""

    def is_allowed(self, user_id: str) -> bool:
        """Whether who sent a message, by its ``User-Id``, is let in still. The network's thread."""

    def close(self) -> None:
        """End what was started, before the context is terminated."""


class CurveAuthenticator:
    """Lets in the clients that ``keys`` allows. Raises KeysError without a server's key.

    See `SocketSecurity`.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._pair: KeyPair = keys.pair(SERVER)
        self._allowed: Mapping[bytes, str] = keys.allowed()  # replaced, never changed
        self._authenticator: ThreadAuthenticator | None = None
        self._logged_keys: set[bytes] = (
            set()
        )  # replaced at a reload, else the authenticator's thread's
        #: How many handshakes were refused; counted by the authenticator's thread.
        self.refused = 0

    @property
    def allowed(self) -> Mapping[bytes, str]:
        """Public key -> name of the clients let in."""
        return self._allowed

    def __call__(self, context: zmq.Context[Any], socket: zmq.Socket[Any]) -> None:
        """Start to answer for the context, and guard a socket that is not bound yet."""
        if self._authenticator is None:
            self._authenticator = ThreadAuthenticator(context, log=_AuthenticatorLog)
            self._authenticator.configure_curve_callback(_DOMAIN, self)
            self._authenticator.start()
            self._authenticator.thread.name = "purgatory-zap"
        socket.curve_server = True
        socket.curve_publickey = self._pair.public
        socket.curve_secretkey = self._pair.secret
        socket.zap_domain = _DOMAIN.encode()
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a client with this public key is let in; asked by the authenticator's thread."""
        del domain
        if key in self._allowed:
            return True
        self.refused += 1
        told = self._logged_keys
        if key not in told and len(told) < _MAX_LOGGED_KEYS:  # strangers must not fill a disk
            told.add(key)
            log.warning("a client with the key %s was not let in", key.decode("ascii", "replace"))
        return False

    def is_allowed(self, user_id: str) -> bool:
        """See `SocketSecurity`; the ``User-Id`` is the public key."""
        return user_id.encode() in self._allowed

    def reload(self) -> None:
        """Read the list again; one that cannot be read is logged, and the old one stays."""
        self._logged_keys = set()
        try:
            self._allowed = self._keys.allowed()
        except KeysError:
            log.exception("the list of clients stays as it was")
        else:
            log.info("%d clients are let in", len(self._allowed))

    def close(self) -> None:
        """End the thread. Before the context is terminated; idempotent."""
        authenticator, self._authenticator = self._authenticator, None
        if authenticator is not None:
            authenticator.stop()


def authenticator_for(config: Config) -> CurveAuthenticator | None:
    """The guard that a server's settings ask for; None for a server on loopback without keys.

    Raises ConfigError for a bind beyond loopback without keys or without a client that is let in,
    unless the settings say insecure; KeysError for keys that cannot be read.
    """
    keys = KeyStore(config.keys_dir)
    # What is no address at all, the server says better.
    binds = [config.bind] if "://" in config.bind else []
    binds += [config.http_bind] if config.http_bind else []
    open_binds = [bind for bind in binds if not is_local(bind)]
    if SERVER in keys.names():
        guard = CurveAuthenticator(keys)
        if open_binds and not guard.allowed and not config.insecure:
            raise ConfigError(
                f"{open_binds[0]} is reachable from elsewhere, and no client is let in by "
                f"{keys.directory}: run `purgatory keys allow`, or say --insecure"
            )
        return guard
    if open_binds and not config.insecure:
        raise ConfigError(
            f"{open_binds[0]} is reachable from elsewhere, and {keys.directory} has no key of "
            "the server: run `purgatory keys new server`, or say --insecure"
        )
    return None


def is_local(bind: str) -> bool:
    """Whether only this machine can reach an address: tcp://host:port, host:port, ipc:, inproc:."""
    scheme, separator, rest = bind.rpartition("://")
    if separator and scheme != "tcp":
        return scheme in ("ipc", "inproc")
    host = rest.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host in ("localhost", "lo"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, an interface, a star
        return False


class _AuthenticatorLog:
    """The authenticator's log, without its every step: what matters is logged here."""

    debug = staticmethod(lambda *_: None)
    error = log.error
