"""The names and numbers of ZeroMQ, as pyzmq spells them.

Every member is also a name of the module. Some have no meaning in-process (network options, monitor
events). Immutable: any thread.
"""

import errno
from enum import Enum, EnumType, IntEnum, IntFlag
from typing import Any, Self

_HAUSNUMERO = 156384712  # libzmq numbers its own errors from here


class Errno(IntEnum):
    """Error numbers: the system's, and four of ZeroMQ's own."""

    EAGAIN = errno.EAGAIN
    EFAULT = errno.EFAULT
    EINVAL = errno.EINVAL
    ENOTSUP = errno.ENOTSUP
    EPROTONOSUPPORT = errno.EPROTONOSUPPORT
    ENOBUFS = errno.ENOBUFS
    ENETDOWN = errno.ENETDOWN
    EADDRINUSE = errno.EADDRINUSE
    EADDRNOTAVAIL = errno.EADDRNOTAVAIL
    ECONNREFUSED = errno.ECONNREFUSED
    EINPROGRESS = errno.EINPROGRESS
    ENOTSOCK = errno.ENOTSOCK
    EMSGSIZE = errno.EMSGSIZE
    EAFNOSUPPORT = errno.EAFNOSUPPORT
    ENETUNREACH = errno.ENETUNREACH
    ECONNABORTED = errno.ECONNABORTED
    ECONNRESET = errno.ECONNRESET
    ENOTCONN = errno.ENOTCONN
    ETIMEDOUT = errno.ETIMEDOUT
    EHOSTUNREACH = errno.EHOSTUNREACH
    ENETRESET = errno.ENETRESET
    EFSM = _HAUSNUMERO + 51
    ENOCOMPATPROTO = _HAUSNUMERO + 52
    ETERM = _HAUSNUMERO + 53
    EMTHREAD = _HAUSNUMERO + 54


class ContextOption(IntEnum):
    """Options of a context."""

    IO_THREADS = 1
    MAX_SOCKETS = 2
    SOCKET_LIMIT = 3
    THREAD_PRIORITY = 3
    THREAD_SCHED_POLICY = 4
    MAX_MSGSZ = 5
    MSG_T_SIZE = 6
    THREAD_AFFINITY_CPU_ADD = 7
    THREAD_AFFINITY_CPU_REMOVE = 8
    THREAD_NAME_PREFIX = 9


class SocketType(IntEnum):
    """Types of sockets. STREAM and later ones need a network."""

    PAIR = 0
    PUB = 1
    SUB = 2
    REQ = 3
    REP = 4
    DEALER = 5
    ROUTER = 6
    PULL = 7
    PUSH = 8
    XPUB = 9
    XSUB = 10
    STREAM = 11
    XREQ = 5
    XREP = 6
    SERVER = 12
    CLIENT = 13
    RADIO = 14
    DISH = 15
    GATHER = 16
    SCATTER = 17
    DGRAM = 18
    PEER = 19
    CHANNEL = 20


class OptType(Enum):
    """What a socket option holds."""

    int = "int"
    int64 = "int64"
    bytes = "bytes"
    fd = "fd"


class SocketOption(IntEnum):
    """Options of a socket; `opt_type` is the type of the value."""

    opt_type: OptType

    def __new__(cls, value: int, opt_type: OptType = OptType.int) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.opt_type = opt_type
        return member

    @property
    def _opt_type(self) -> OptType:
        return self.opt_type

    HWM = 1
    AFFINITY = 4, OptType.int64
    ROUTING_ID = 5, OptType.bytes
    SUBSCRIBE = 6, OptType.bytes
    UNSUBSCRIBE = 7, OptType.bytes
    RATE = 8
    RECOVERY_IVL = 9
    SNDBUF = 11
    RCVBUF = 12
    RCVMORE = 13
    FD = 14, OptType.fd
    EVENTS = 15
    TYPE = 16
    LINGER = 17
    RECONNECT_IVL = 18
    BACKLOG = 19
    RECONNECT_IVL_MAX = 21
    MAXMSGSIZE = 22, OptType.int64
    SNDHWM = 23
    RCVHWM = 24
    MULTICAST_HOPS = 25
    RCVTIMEO = 27
    SNDTIMEO = 28
    LAST_ENDPOINT = 32, OptType.bytes
    ROUTER_MANDATORY = 33
    TCP_KEEPALIVE = 34
    TCP_KEEPALIVE_CNT = 35
    TCP_KEEPALIVE_IDLE = 36
    TCP_KEEPALIVE_INTVL = 37
    IMMEDIATE = 39
    XPUB_VERBOSE = 40
    ROUTER_RAW = 41
    IPV6 = 42
    MECHANISM = 43
    PLAIN_SERVER = 44
    PLAIN_USERNAME = 45, OptType.bytes
    PLAIN_PASSWORD = 46, OptType.bytes
    CURVE_SERVER = 47
    CURVE_PUBLICKEY = 48, OptType.bytes
    CURVE_SECRETKEY = 49, OptType.bytes
    CURVE_SERVERKEY = 50, OptType.bytes
    PROBE_ROUTER = 51
    REQ_CORRELATE = 52
    REQ_RELAXED = 53
    CONFLATE = 54
    ZAP_DOMAIN = 55, OptType.bytes
    ROUTER_HANDOVER = 56
    TOS = 57
    CONNECT_ROUTING_ID = 61, OptType.bytes
    GSSAPI_SERVER = 62
    GSSAPI_PRINCIPAL = 63, OptType.bytes
    GSSAPI_SERVICE_PRINCIPAL = 64, OptType.bytes
    GSSAPI_PLAINTEXT = 65
    HANDSHAKE_IVL = 66
    SOCKS_PROXY = 68, OptType.bytes
    XPUB_NODROP = 69
    BLOCKY = 70
    XPUB_MANUAL = 71
    XPUB_WELCOME_MSG = 72, OptType.bytes
    STREAM_NOTIFY = 73
    INVERT_MATCHING = 74
    HEARTBEAT_IVL = 75
    HEARTBEAT_TTL = 76
    HEARTBEAT_TIMEOUT = 77
    XPUB_VERBOSER = 78
    CONNECT_TIMEOUT = 79
    TCP_MAXRT = 80
    THREAD_SAFE = 81
    MULTICAST_MAXTPDU = 84
    VMCI_BUFFER_SIZE = 85, OptType.int64
    VMCI_BUFFER_MIN_SIZE = 86, OptType.int64
    VMCI_BUFFER_MAX_SIZE = 87, OptType.int64
    VMCI_CONNECT_TIMEOUT = 88
    USE_FD = 89
    GSSAPI_PRINCIPAL_NAMETYPE = 90
    GSSAPI_SERVICE_PRINCIPAL_NAMETYPE = 91
    BINDTODEVICE = 92, OptType.bytes
    IDENTITY = ROUTING_ID
    CONNECT_RID = CONNECT_ROUTING_ID
    TCP_ACCEPT_FILTER = 38, OptType.bytes
    IPC_FILTER_PID = 58
    IPC_FILTER_UID = 59
    IPC_FILTER_GID = 60
    IPV4ONLY = 31
    DELAY_ATTACH_ON_CONNECT = IMMEDIATE
    FAIL_UNROUTABLE = ROUTER_MANDATORY
    ROUTER_BEHAVIOR = ROUTER_MANDATORY
    ZAP_ENFORCE_DOMAIN = 93
    LOOPBACK_FASTPATH = 94
    METADATA = 95, OptType.bytes
    MULTICAST_LOOP = 96
    ROUTER_NOTIFY = 97
    XPUB_MANUAL_LAST_VALUE = 98
    SOCKS_USERNAME = 99, OptType.bytes
    SOCKS_PASSWORD = 100, OptType.bytes
    IN_BATCH_SIZE = 101
    OUT_BATCH_SIZE = 102
    WSS_KEY_PEM = 103, OptType.bytes
    WSS_CERT_PEM = 104, OptType.bytes
    WSS_TRUST_PEM = 105, OptType.bytes
    WSS_HOSTNAME = 106, OptType.bytes
    WSS_TRUST_SYSTEM = 107
    ONLY_FIRST_SUBSCRIBE = 108
    RECONNECT_STOP = 109
    HELLO_MSG = 110, OptType.bytes
    DISCONNECT_MSG = 111, OptType.bytes
    PRIORITY = 112
    BUSY_POLL = 113
    HICCUP_MSG = 114, OptType.bytes
    XSUB_VERBOSE_UNSUBSCRIBE = 115
    TOPICS_COUNT = 116
    NORM_MODE = 117
    NORM_UNICAST_NACK = 118
    NORM_BUFFER_SIZE = 119
    NORM_SEGMENT_SIZE = 120
    NORM_BLOCK_SIZE = 121
    NORM_NUM_PARITY = 122
    NORM_NUM_AUTOPARITY = 123
    NORM_PUSH = 124


class MessageOption(IntEnum):
    """Properties of a Frame."""

    MORE = 1
    SHARED = 3
    SRCFD = 2


class Flag(IntFlag):
    """Flags of send and recv."""

    DONTWAIT = 1
    SNDMORE = 2
    NOBLOCK = 1


class RouterNotify(IntEnum):
    """Values of ROUTER_NOTIFY."""

    CONNECT = 1
    DISCONNECT = 2


class NormMode(IntEnum):
    """Values of NORM_MODE."""

    FIXED = 0
    CC = 1
    CCL = 2
    CCE = 3
    CCE_ECNONLY = 4


class SecurityMechanism(IntEnum):
    """Values of MECHANISM."""

    NULL = 0
    PLAIN = 1
    CURVE = 2
    GSSAPI = 3


class ReconnectStop(IntEnum):
    """Values of RECONNECT_STOP."""

    CONN_REFUSED = 1
    HANDSHAKE_FAILED = 2
    AFTER_DISCONNECT = 4


class Event(IntFlag):
    """Events of a monitor socket."""

    PROTOCOL_ERROR_WS_UNSPECIFIED = 0x30000000
    PROTOCOL_ERROR_ZMTP_UNSPECIFIED = 0x10000000
    PROTOCOL_ERROR_ZMTP_UNEXPECTED_COMMAND = 0x10000001
    PROTOCOL_ERROR_ZMTP_INVALID_SEQUENCE = 0x10000002
    PROTOCOL_ERROR_ZMTP_KEY_EXCHANGE = 0x10000003
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_UNSPECIFIED = 0x10000011
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_MESSAGE = 0x10000012
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_HELLO = 0x10000013
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_INITIATE = 0x10000014
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_ERROR = 0x10000015
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_READY = 0x10000016
    PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_WELCOME = 0x10000017
    PROTOCOL_ERROR_ZMTP_INVALID_METADATA = 0x10000018
    PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC = 0x11000001
    PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH = 0x11000002
    PROTOCOL_ERROR_ZAP_UNSPECIFIED = 0x20000000
    PROTOCOL_ERROR_ZAP_MALFORMED_REPLY = 0x20000001
    PROTOCOL_ERROR_ZAP_BAD_REQUEST_ID = 0x20000002
    PROTOCOL_ERROR_ZAP_BAD_VERSION = 0x20000003
    PROTOCOL_ERROR_ZAP_INVALID_STATUS_CODE = 0x20000004
    PROTOCOL_ERROR_ZAP_INVALID_METADATA = 0x20000005
    CONNECTED = 0x1
    CONNECT_DELAYED = 0x2
    CONNECT_RETRIED = 0x4
    LISTENING = 0x8
    BIND_FAILED = 0x10
    ACCEPTED = 0x20
    ACCEPT_FAILED = 0x40
    CLOSED = 0x80
    CLOSE_FAILED = 0x100
    DISCONNECTED = 0x200
    MONITOR_STOPPED = 0x400
    HANDSHAKE_FAILED_NO_DETAIL = 0x800
    HANDSHAKE_SUCCEEDED = 0x1000
    HANDSHAKE_FAILED_PROTOCOL = 0x2000
    HANDSHAKE_FAILED_AUTH = 0x4000
    ALL_V1 = 0xFFFF
    ALL = 0xFFFF
    PIPES_STATS = 0x10000
    ALL_V2 = 0x1FFFF


class PollEvent(IntFlag):
    """Events to poll for."""

    POLLIN = 1
    POLLOUT = 2
    POLLERR = 4
    POLLPRI = 8


class DeviceType(IntEnum):
    """Kinds of devices."""

    STREAMER = 1
    FORWARDER = 2
    QUEUE = 3


_PREFIXES: dict[type[Enum], str] = {
    RouterNotify: "NOTIFY_",
    NormMode: "NORM_",
    ReconnectStop: "RECONNECT_STOP_",
    Event: "EVENT_",
}


def _export() -> list[str]:
    """Make every member a name of the module; return all names."""
    names = []
    ours = [each for each in globals().values() if getattr(each, "__module__", "") == __name__]
    enumerations: list[Any] = [
        each for each in ours if isinstance(each, EnumType) and issubclass(each, int)
    ]
    for enumeration in sorted(enumerations, key=lambda each: each.__name__):
        prefix = _PREFIXES.get(enumeration, "")
        for name, member in enumeration.__members__.items():
            full = name if name.startswith("PROTOCOL_ERROR_") else prefix + name
            globals()[full] = member
            names.append(full)
    return names


_OptType = OptType  # pyzmq's name

__all__ = [  # noqa: PLE0604 - _export returns strings
    "ContextOption",
    "DeviceType",
    "Errno",
    "Event",
    "Flag",
    "MessageOption",
    "NormMode",
    "PollEvent",
    "ReconnectStop",
    "RouterNotify",
    "SecurityMechanism",
    "SocketOption",
    "SocketType",
    *_export(),
]
