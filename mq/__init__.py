"""ZeroMQ's in-process layer, with pyzmq's API.

`import mq as zmq` runs programs written for pyzmq that use inproc:// only. The queue layers are
public too. Floors, highest first; each imports only lower floors::

    context socket poller frame devices asyncio  handles for programs
    sockets/                                     socket types
    core/                                        contexts
    pipes/                                       connections
    queues/                                      queues between threads
    constants errors
"""

from typing import TYPE_CHECKING, Any

from mq import constants
from mq import errors as error
from mq.constants import *  # noqa: F403 - pyzmq's names
from mq.context import Context
from mq.devices import device, proxy
from mq.errors import (
    Again,
    ContextTerminated,
    InterruptedSystemCall,
    MailboxClosed,
    NotDone,
    ZMQBaseError,
    ZMQBindError,
    ZMQError,
    ZMQVersionError,
    strerror,
)
from mq.frame import COPY_THRESHOLD, Frame, Message
from mq.pipes.commands import Command
from mq.pipes.message import FINISHED_TRACKER as _FINISHED_TRACKER
from mq.pipes.message import MessageTracker
from mq.poller import Poller, select, zmq_poll
from mq.queues.mailbox import Mailbox
from mq.queues.signaler import Signaler
from mq.queues.ypipe import Empty, YPipe
from mq.queues.yqueue import YQueue
from mq.socket import Socket

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return the constants."""


DRAFT_API = False
IPC_PATH_MAX_LEN = 107
SyncContext = Context
SyncSocket = Socket

#: The versions of ZeroMQ and pyzmq that are followed.
_ZMQ_VERSION = (4, 3, 5)
_PYZMQ_VERSION = (27, 3, 0)
__version__ = "27.3.0"


def zmq_version_info() -> tuple[int, int, int]:
    """Return the version of ZeroMQ whose behaviour `mq` has."""
    return _ZMQ_VERSION


def zmq_version() -> str:
    """Return the version of ZeroMQ as a string."""
    return ".".join(map(str, _ZMQ_VERSION))


def pyzmq_version_info() -> tuple[int, int, int]:
    """Return the version of pyzmq whose API `mq` has."""
    return _PYZMQ_VERSION


def pyzmq_version() -> str:
    """Return the version of pyzmq as a string."""
    return __version__


def has(capability: str) -> bool:
    """Return False: all optional capabilities are absent."""
    del capability
    return False


__all__ = [  # noqa: PLE0604 - constants.__all__ holds strings
    "COPY_THRESHOLD",
    "DRAFT_API",
    "IPC_PATH_MAX_LEN",
    "Again",
    "Command",
    "Context",
    "ContextTerminated",
    "Empty",
    "Frame",
    "InterruptedSystemCall",
    "Mailbox",
    "MailboxClosed",
    "Message",
    "MessageTracker",
    "NotDone",
    "Poller",
    "Signaler",
    "Socket",
    "SyncContext",
    "SyncSocket",
    "YPipe",
    "YQueue",
    "ZMQBaseError",
    "ZMQBindError",
    "ZMQError",
    "ZMQVersionError",
    "_FINISHED_TRACKER",
    "device",
    "error",
    "has",
    "proxy",
    "pyzmq_version",
    "pyzmq_version_info",
    "select",
    "strerror",
    "zmq_poll",
    "zmq_version",
    "zmq_version_info",
    *constants.__all__,
]
