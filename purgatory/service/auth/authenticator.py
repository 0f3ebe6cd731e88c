"""CurveAuthenticator: admits clients to a server by CURVE and an allow list.

ZeroMQ's authentication protocol (ZAP) refuses a client in the handshake: no message of a client
without an allowed key reaches the server. Without CURVE the handshake does not begin. pyzmq's
`ThreadAuthenticator` answers in the thread `purgatory-zap`. Other threads make, reload and close a
`CurveAuthenticator`.
"""

import ipaddress
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

import zmq
from zmq.auth.thread import ThreadAuthenticator

from purgatory.service.auth.access import Access
from purgatory.service.auth.key_store import SERVER, KeyPair, KeyStore
from purgatory.service.config import Config
from purgatory.service.errors import ConfigError, KeysError

log: logging.Logger = logging.getLogger(__name__)

# With an empty domain ZeroMQ accepts every client while no authenticator answers.
_DOMAIN: Final = "purgatory"
# Refused keys are logged once each until a reload, so that they cannot fill the disk.
_MAX_LOGGED_KEYS: Final = 100


class SocketSecurity(Protocol):
    """The guard of a server's socket; `CurveAuthenticator` is one."""

    def __call__(self, context: zmq.Context[Any], socket: zmq.Socket[Any], /) -> None:
        """Guard a socket before it is bound, and answer its context's handshakes."""

    def access_of(self, user_id: str) -> Access | None:
        """Return what the sender of a message may do now, by its `User-Id`; None: nothing.

        For the network thread.
        """

    def close(self) -> None:
        """End the guard, before the context is terminated."""


class CurveAuthenticator:
    """Accepts the clients on the allow list of `keys`.

    Raises KeysError if `keys` has no server's key pair.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._pair: KeyPair = keys.pair(SERVER)
        self._allowed: Mapping[bytes, Access] = keys.allowed()  # a reload replaces the dict
        self._authenticator: ThreadAuthenticator | None = None
        # Changed by `purgatory-zap`.
        self._logged_keys: set[bytes] = set()
        #: Written by `purgatory-zap`, read by any thread.
        self.refused_handshakes: int = 0

    @property
    def public_key(self) -> str:
        """The server's public key."""
        return self._pair.public.decode()

    @property
    def allowed(self) -> Mapping[bytes, Access]:
        """The allow list, by public key."""
        return self._allowed

    def __call__(self, context: zmq.Context[Any], socket: zmq.Socket[Any]) -> None:
        """See `SocketSecurity`."""
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
        """Return whether a public key is allowed; for `purgatory-zap`."""
        del domain
        if key in self._allowed:
            return True
        self.refused_handshakes += 1
        logged = self._logged_keys
        if key not in logged and len(logged) < _MAX_LOGGED_KEYS:
            logged.add(key)
            log.warning(
                "refused a client with the key %s: not on the allow list",
                key.decode("ascii", "replace"),
            )
        return False

    def access_of(self, user_id: str) -> Access | None:
        """See `SocketSecurity`; the `User-Id` is the public key."""
        return self._allowed.get(user_id.encode())

    def reload(self) -> None:
        """Read the allow list again; after an error keep the old list."""
        self._logged_keys = set()
        try:
            self._allowed = self._keys.allowed()
        except KeysError:
            log.exception("the allow list cannot be read; the earlier one stays in force")
        else:
            log.info("%d clients are allowed", len(self._allowed))

    def close(self) -> None:
        """See `SocketSecurity`. Idempotent."""
        authenticator, self._authenticator = self._authenticator, None
        if authenticator is not None:
            authenticator.stop()


def authenticator_for(config: Config) -> CurveAuthenticator | None:
    """Return the authenticator for a server's settings; None on loopback without keys.

    Raises KeysError; ConfigError for a bind beyond loopback without keys or allowed clients, unless
    `insecure`.
    """
    keys = KeyStore(config.keys_dir)
    # The server reports a bind that is no address.
    binds = [config.bind] if "://" in config.bind else []
    binds += [config.http_bind] if config.http_bind else []
    open_binds = [bind for bind in binds if not is_local(bind)]
    authenticator = CurveAuthenticator(keys) if SERVER in keys.names() else None
    if authenticator is None:
        trouble, verb = f"{keys.directory} has no key of the server", "new server"
    elif not authenticator.allowed:
        trouble, verb = f"no client is allowed in {keys.directory}", "allow"
    else:
        return authenticator
    if open_binds and not config.insecure:
        raise ConfigError(
            f"{open_binds[0]} is reachable from elsewhere, and {trouble}: "
            f"run `purgatory keys {verb}`, or say --insecure"
        )
    return authenticator


def is_local(bind: str) -> bool:
    """Return whether only this machine can reach `bind`, with or without a scheme."""
    scheme, separator, rest = bind.rpartition("://")
    if separator and scheme != "tcp":
        return scheme in ("ipc", "inproc")
    host = rest.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host in ("localhost", "lo"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a host name, an interface, or `*`
        return False


class _AuthenticatorLog:
    """pyzmq's log, without debug messages."""

    debug = staticmethod(lambda *_: None)
    error = log.error
