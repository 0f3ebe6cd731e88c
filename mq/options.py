"""Options: what `setsockopt` and `getsockopt` hold, with ZeroMQ's defaults and limits.

Who may call it: the thread of the socket it belongs to.
"""

from __future__ import annotations

from errno import EINVAL

from mq.constants import SocketOption as Opt
from mq.errors import ZMQError

Value = int | bytes

_INT_DEFAULTS: dict[int, int] = {
    Opt.AFFINITY: 0,
    Opt.RATE: 100,
    Opt.RECOVERY_IVL: 10000,
    Opt.SNDBUF: -1,
    Opt.RCVBUF: -1,
    Opt.LINGER: -1,
    Opt.RECONNECT_IVL: 100,
    Opt.RECONNECT_IVL_MAX: 0,
    Opt.BACKLOG: 100,
    Opt.MAXMSGSIZE: -1,
    Opt.SNDHWM: 1000,
    Opt.RCVHWM: 1000,
    Opt.MULTICAST_HOPS: 1,
    Opt.RCVTIMEO: -1,
    Opt.SNDTIMEO: -1,
    Opt.ROUTER_MANDATORY: 0,
    Opt.TCP_KEEPALIVE: -1,
    Opt.TCP_KEEPALIVE_CNT: -1,
    Opt.TCP_KEEPALIVE_IDLE: -1,
    Opt.TCP_KEEPALIVE_INTVL: -1,
    Opt.IMMEDIATE: 0,
    Opt.IPV4ONLY: 1,
    Opt.IPV6: 0,
    Opt.XPUB_VERBOSE: 0,
    Opt.XPUB_VERBOSER: 0,
    Opt.XPUB_NODROP: 0,
    Opt.XPUB_MANUAL: 0,
    Opt.ROUTER_RAW: 0,
    Opt.ROUTER_HANDOVER: 0,
    Opt.PROBE_ROUTER: 0,
    Opt.REQ_CORRELATE: 0,
    Opt.REQ_RELAXED: 0,
    Opt.CONFLATE: 0,
    Opt.INVERT_MATCHING: 0,
    Opt.TOS: 0,
    Opt.HANDSHAKE_IVL: 30000,
    Opt.HEARTBEAT_IVL: 0,
    Opt.HEARTBEAT_TTL: 0,
    Opt.HEARTBEAT_TIMEOUT: -1,
    Opt.CONNECT_TIMEOUT: 0,
    Opt.TCP_MAXRT: 0,
    Opt.MULTICAST_MAXTPDU: 1500,
    Opt.MULTICAST_LOOP: 1,
    Opt.USE_FD: -1,
    Opt.PLAIN_SERVER: 0,
    Opt.CURVE_SERVER: 0,
    Opt.GSSAPI_SERVER: 0,
    Opt.GSSAPI_PLAINTEXT: 0,
    Opt.GSSAPI_PRINCIPAL_NAMETYPE: 0,
    Opt.GSSAPI_SERVICE_PRINCIPAL_NAMETYPE: 0,
    Opt.ZAP_ENFORCE_DOMAIN: 0,
    Opt.LOOPBACK_FASTPATH: 0,
    Opt.ROUTER_NOTIFY: 0,
    Opt.IN_BATCH_SIZE: 8192,
    Opt.OUT_BATCH_SIZE: 8192,
}
_BYTES_DEFAULTS: dict[int, bytes] = {
    Opt.ROUTING_ID: b"",
    Opt.LAST_ENDPOINT: b"",
    Opt.PLAIN_USERNAME: b"",
    Opt.PLAIN_PASSWORD: b"",
    Opt.ZAP_DOMAIN: b"",
    Opt.SOCKS_PROXY: b"",
    Opt.BINDTODEVICE: b"",
    Opt.XPUB_WELCOME_MSG: b"",
    Opt.CONNECT_ROUTING_ID: b"",
    Opt.SUBSCRIBE: b"",
    Opt.UNSUBSCRIBE: b"",
}
#: What a socket type answers for itself, whatever is stored.
_COMPUTED_INTS = {Opt.RCVMORE, Opt.FD, Opt.EVENTS, Opt.TYPE, Opt.THREAD_SAFE, Opt.MECHANISM}
_READ_ONLY = {*_COMPUTED_INTS, Opt.LAST_ENDPOINT}
_WRITE_ONLY = {
    Opt.SUBSCRIBE,
    Opt.UNSUBSCRIBE,
    Opt.CONNECT_ROUTING_ID,
    Opt.XPUB_WELCOME_MSG,
    Opt.ROUTER_MANDATORY,
    Opt.ROUTER_HANDOVER,
    Opt.PROBE_ROUTER,
    Opt.REQ_CORRELATE,
    Opt.REQ_RELAXED,
    Opt.XPUB_VERBOSE,
    Opt.XPUB_VERBOSER,
    Opt.XPUB_NODROP,
    Opt.XPUB_MANUAL,
}
_BOOLEANS = {
    Opt.CONFLATE,
    Opt.IMMEDIATE,
    Opt.IPV6,
    Opt.IPV4ONLY,
    Opt.ROUTER_MANDATORY,
    Opt.ROUTER_HANDOVER,
    Opt.PROBE_ROUTER,
    Opt.REQ_CORRELATE,
    Opt.REQ_RELAXED,
    Opt.INVERT_MATCHING,
}
_NOT_BELOW_ZERO = {Opt.SNDHWM, Opt.RCVHWM, Opt.RATE, Opt.BACKLOG, Opt.RECOVERY_IVL}
_NOT_BELOW_MINUS_ONE = {Opt.LINGER, Opt.RCVTIMEO, Opt.SNDTIMEO, Opt.RECONNECT_IVL, Opt.MAXMSGSIZE}


def is_bytes(option: int) -> bool:
    """Whether the values of `option` are bytes.  Options unknown to us count as numbers."""
    return option in _BYTES_DEFAULTS


class Options:
    """The options of one socket.  Those read for every message are attributes besides."""

    __slots__ = ("_values", "rcvtimeo", "sndtimeo")

    def __init__(self) -> None:
        self._values: dict[int, Value] = {**_INT_DEFAULTS, **_BYTES_DEFAULTS}
        self.rcvtimeo = -1
        self.sndtimeo = -1

    def number(self, option: int) -> int:
        """The value of an option that is a number."""
        value = self._values[option]
        assert isinstance(value, int)
        return value

    def data(self, option: int) -> bytes:
        """The value of an option that is bytes."""
        value = self._values[option]
        assert isinstance(value, bytes)
        return value

    def store(self, option: int, value: Value) -> None:
        """Set `option` unchecked."""
        self._values[option] = value

    def get(self, option: int) -> Value:
        """What a user reads; EINVAL for what is unknown or cannot be read."""
        if option in _WRITE_ONLY or option not in self._values:
            raise ZMQError(EINVAL)
        return self._values[option]

    def set(self, option: int, value: object) -> Value:
        """What a user sets; EINVAL or TypeError.  Returns the value as stored."""
        checked = _check(option, value)
        self._values[option] = checked
        if option == Opt.RCVTIMEO:
            self.rcvtimeo = int(checked)
        elif option == Opt.SNDTIMEO:
            self.sndtimeo = int(checked)
        return checked


def _check(option: int, value: object) -> Value:
    if is_bytes(option):
        return _check_bytes(option, value)
    if isinstance(value, bool) or not isinstance(value, int):
        if not isinstance(value, bool):
            raise TypeError(f"expected int for option {option}, got: {value!r}")
        value = int(value)
    if option not in _INT_DEFAULTS or option in _READ_ONLY:
        raise ZMQError(EINVAL)
    bad = (
        (option in _NOT_BELOW_ZERO and value < 0)
        or (option in _NOT_BELOW_MINUS_ONE and value < -1)
        or (option in _BOOLEANS and value not in (0, 1))
    )
    if bad:
        raise ZMQError(EINVAL)
    return value


def _check_bytes(option: int, value: object) -> bytes:
    if isinstance(value, str) or not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"expected bytes for option {option}, got: {value!r}")
    value = bytes(value)
    if option in _READ_ONLY:
        raise ZMQError(EINVAL)
    if option in (Opt.ROUTING_ID, Opt.CONNECT_ROUTING_ID) and not 1 <= len(value) <= 255:
        raise ZMQError(EINVAL)
    return value
