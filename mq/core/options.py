"""Options of sockets: their names, values and ranges.

For the socket's thread. Options of networks are stored and ignored.
"""

from typing import Final, TypeAlias

from mq.constants import Errno, OptType, SocketOption, SocketType
from mq.errors import ZMQError

Value = int | bytes

_INT_MAX: Final = 2**31 - 1
_ENDLESS: Final = 2**62
_ANY: Final = (-(2**63), 2**63 - 1)
_FLAG: Final = (0, 1)
_SWITCH: Final = (0, _INT_MAX)  # on unless 0
_FROM_1: Final = (1, _INT_MAX)
_FROM_MINUS_1: Final = (-1, _INT_MAX)
_SHORT_TEXT: Final = (1, 255)

_Types: TypeAlias = frozenset[SocketType]
_PUBLISHERS: Final[_Types] = frozenset((SocketType.PUB, SocketType.XPUB))
_ROUTERS: Final[_Types] = frozenset((SocketType.ROUTER, SocketType.REP))
_REQ: Final[_Types] = frozenset((SocketType.REQ,))

#: Options of some socket types, set and never read back.
_OF_TYPES: Final[dict[int, _Types]] = {
    SocketOption.CONNECT_ROUTING_ID: _ROUTERS,
    SocketOption.ONLY_FIRST_SUBSCRIBE: _PUBLISHERS | {SocketType.XSUB},
    SocketOption.PROBE_ROUTER: _ROUTERS | _REQ | {SocketType.DEALER},
    SocketOption.REQ_CORRELATE: _REQ,
    SocketOption.REQ_RELAXED: _REQ,
    SocketOption.ROUTER_HANDOVER: _ROUTERS,
    SocketOption.ROUTER_MANDATORY: _ROUTERS,
    SocketOption.ROUTER_RAW: _ROUTERS,
    SocketOption.XPUB_MANUAL: _PUBLISHERS,
    SocketOption.XPUB_MANUAL_LAST_VALUE: _PUBLISHERS,
    SocketOption.XPUB_NODROP: _PUBLISHERS,
    SocketOption.XPUB_VERBOSE: _PUBLISHERS,
    SocketOption.XPUB_VERBOSER: _PUBLISHERS,
    SocketOption.XPUB_WELCOME_MSG: _PUBLISHERS,
}

#: The least and greatest value or length.
_RANGES: Final[dict[int, tuple[int, int]]] = {
    SocketOption.SNDHWM: _SWITCH,
    SocketOption.RCVHWM: _SWITCH,
    SocketOption.LINGER: _FROM_MINUS_1,
    SocketOption.RCVTIMEO: _FROM_MINUS_1,
    SocketOption.SNDTIMEO: _FROM_MINUS_1,
    SocketOption.BACKLOG: _SWITCH,
    SocketOption.CONFLATE: _FLAG,
    SocketOption.CONNECT_TIMEOUT: _SWITCH,
    SocketOption.CURVE_SERVER: _FLAG,
    SocketOption.HANDSHAKE_IVL: _SWITCH,
    SocketOption.HEARTBEAT_IVL: _SWITCH,
    SocketOption.HEARTBEAT_TIMEOUT: _SWITCH,
    SocketOption.HEARTBEAT_TTL: (-99, 6553599),
    SocketOption.IMMEDIATE: _FLAG,
    SocketOption.IPV4ONLY: _FLAG,
    SocketOption.IPV6: _FLAG,
    SocketOption.MULTICAST_HOPS: _FROM_1,
    SocketOption.MULTICAST_MAXTPDU: _FROM_1,
    SocketOption.PLAIN_SERVER: _FLAG,
    SocketOption.RATE: _FROM_1,
    SocketOption.RCVBUF: _FROM_MINUS_1,
    SocketOption.RECONNECT_IVL: _FROM_MINUS_1,
    SocketOption.RECONNECT_IVL_MAX: _SWITCH,
    SocketOption.RECOVERY_IVL: _SWITCH,
    SocketOption.SNDBUF: _FROM_MINUS_1,
    SocketOption.TCP_KEEPALIVE: (-1, 1),
    SocketOption.TCP_KEEPALIVE_CNT: _FROM_MINUS_1,
    SocketOption.TCP_KEEPALIVE_IDLE: _FROM_MINUS_1,
    SocketOption.TCP_KEEPALIVE_INTVL: _FROM_MINUS_1,
    SocketOption.TCP_MAXRT: _SWITCH,
    SocketOption.TOS: _SWITCH,
    SocketOption.USE_FD: _FROM_MINUS_1,
    SocketOption.BINDTODEVICE: (1, 16),
    SocketOption.CONNECT_ROUTING_ID: (1, _ENDLESS),
    SocketOption.PLAIN_PASSWORD: _SHORT_TEXT,
    SocketOption.PLAIN_USERNAME: _SHORT_TEXT,
    SocketOption.ROUTING_ID: _SHORT_TEXT,
    SocketOption.SOCKS_PASSWORD: (0, 255),
    SocketOption.SOCKS_PROXY: (1, _ENDLESS),
    SocketOption.SOCKS_USERNAME: (0, 255),
    SocketOption.ZAP_DOMAIN: _SHORT_TEXT,
}
#: Options that hold 1 for any value but 0.
_TRUTHS: Final = frozenset(
    {
        SocketOption.INVERT_MATCHING,
        SocketOption.LOOPBACK_FASTPATH,
        SocketOption.MULTICAST_LOOP,
        SocketOption.ZAP_ENFORCE_DOMAIN,
    }
)
_CURVE_KEYS: Final = frozenset(
    {SocketOption.CURVE_PUBLICKEY, SocketOption.CURVE_SECRETKEY, SocketOption.CURVE_SERVERKEY}
)
#: Binary, and as text (Z85).
_CURVE_KEY_LENGTHS: Final = (32, 40)

_DEFAULTS: dict[int, Value] = {
    SocketOption.SNDHWM: 1000,
    SocketOption.RCVHWM: 1000,
    SocketOption.LINGER: -1,
    SocketOption.RCVTIMEO: -1,
    SocketOption.SNDTIMEO: -1,
    SocketOption.RATE: 100,
    SocketOption.RECOVERY_IVL: 10000,
    SocketOption.SNDBUF: -1,
    SocketOption.RCVBUF: -1,
    SocketOption.RECONNECT_IVL: 100,
    SocketOption.BACKLOG: 100,
    SocketOption.MAXMSGSIZE: -1,
    SocketOption.MULTICAST_HOPS: 1,
    SocketOption.MULTICAST_MAXTPDU: 1500,
    SocketOption.TCP_KEEPALIVE: -1,
    SocketOption.TCP_KEEPALIVE_CNT: -1,
    SocketOption.TCP_KEEPALIVE_IDLE: -1,
    SocketOption.TCP_KEEPALIVE_INTVL: -1,
    SocketOption.IPV4ONLY: 1,
    SocketOption.HANDSHAKE_IVL: 30000,
    SocketOption.HEARTBEAT_TIMEOUT: -1,
    SocketOption.USE_FD: -1,
    SocketOption.MULTICAST_LOOP: 1,
}

#: Never set and never stored.
_READ_ONLY: Final = frozenset(
    {
        SocketOption.EVENTS,
        SocketOption.FD,
        SocketOption.LAST_ENDPOINT,
        SocketOption.MECHANISM,
        SocketOption.RCVMORE,
        SocketOption.THREAD_SAFE,
        SocketOption.TYPE,
        SocketOption.TOPICS_COUNT,
    }
)

#: Set, and never read back.
_WRITE_ONLY: Final = (
    frozenset(_OF_TYPES)
    | _CURVE_KEYS
    | {
        SocketOption.SUBSCRIBE,
        SocketOption.UNSUBSCRIBE,
        SocketOption.IPC_FILTER_GID,
        SocketOption.IPC_FILTER_PID,
        SocketOption.IPC_FILTER_UID,
    }
)

#: Only in special or draft builds of libzmq.
_MISSING: Final = frozenset(
    option
    for name, option in SocketOption.__members__.items()
    if name.startswith(("GSSAPI", "NORM_", "VMCI", "WSS_"))
    or name.endswith(("_BATCH_SIZE", "CONNECT_MSG", "HELLO_MSG", "HICCUP_MSG"))
) | {
    SocketOption.BLOCKY,
    SocketOption.BUSY_POLL,
    SocketOption.HWM,
    SocketOption.METADATA,
    SocketOption.PRIORITY,
    SocketOption.ROUTER_NOTIFY,
    SocketOption.STREAM_NOTIFY,
    SocketOption.TCP_ACCEPT_FILTER,
    SocketOption.XSUB_VERBOSE_UNSUBSCRIBE,
}
_KNOWN: Final = frozenset(SocketOption.__members__.values()) - _MISSING


def option_type(option: int) -> OptType:
    """Return an option's type; int if unknown."""
    try:
        return SocketOption(option).opt_type
    except ValueError:
        return OptType.int


def check_type(option: int, value: object) -> Value:
    """Return `value` if of the option's type, else raise TypeError or OverflowError."""
    if isinstance(value, str):
        raise TypeError("unicode not allowed, use setsockopt_string")
    kind = option_type(option)
    if kind is OptType.bytes:
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, got: {value!r}")
        return value
    return check_int(value, 64 if kind is OptType.int64 else 32)


def check_int(value: object, bits: int = 32) -> int:
    """Return an int of so many bits, else raise TypeError or OverflowError."""
    if not isinstance(value, int):
        raise TypeError(f"expected int, got: {value!r}")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"expected an int of {bits} bits, got: {value!r}")
    return int(value)


def check_linger(value: object) -> None:
    """Raise TypeError or OverflowError unless `value` is None or an int of 32 bits."""
    if value is not None:
        check_int(value)


class Options:
    """The options of one socket. EINVAL if unknown or out of range."""

    def __init__(self, socket_type: SocketType) -> None:
        self._socket_type = socket_type
        self._values = dict(_DEFAULTS)
        self.routing_id: bytes = b""
        self.connect_routing_id: bytes = b""  # of the next connection; empty for none
        self.rcvtimeo: float | None = None  # seconds, None for ever
        self.sndtimeo: float | None = None

    def __getitem__(self, option: int) -> int:
        """Return an int option, by default 0."""
        value = self._values.get(option, 0)
        assert isinstance(value, int)
        return value

    def set(self, option: int, value: Value) -> None:
        """Store a value of the right type."""
        _require(self.is_settable(option))
        least, most = _RANGES.get(option, _SWITCH if option in _OF_TYPES else _ANY)
        _require(least <= (len(value) if isinstance(value, bytes) else value) <= most)
        if isinstance(value, bytes):
            _require(option not in _CURVE_KEYS or len(value) in _CURVE_KEY_LENGTHS)
            if option == SocketOption.ROUTING_ID:
                self.routing_id = value
            elif option == SocketOption.CONNECT_ROUTING_ID:
                self.connect_routing_id = value
        elif option in _TRUTHS:
            value = int(value != 0)
        elif option == SocketOption.HEARTBEAT_TTL:
            value = max(0, value) // 100 * 100  # sent in tenths of a second
        self._values[option] = value
        if option == SocketOption.RCVTIMEO:
            self.rcvtimeo = _seconds(self[option])
        elif option == SocketOption.SNDTIMEO:
            self.sndtimeo = _seconds(self[option])

    def is_settable(self, option: int) -> bool:
        """Whether a socket of this type has an option to set."""
        if option not in _KNOWN or option in _READ_ONLY:
            return False
        return option not in _OF_TYPES or self._socket_type in _OF_TYPES[option]

    def get(self, option: int) -> Value:
        """Read a stored option back."""
        _require(option in _KNOWN and option not in _WRITE_ONLY)
        return self._values.get(option, b"" if option_type(option) is OptType.bytes else 0)


def _require(condition: bool) -> None:
    if not condition:
        raise ZMQError(Errno.EINVAL)


def _seconds(milliseconds: int) -> float | None:
    return None if milliseconds < 0 else milliseconds / 1000
