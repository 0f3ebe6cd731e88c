"""How threads talk: ZeroMQ's in-process layer with pyzmq's API.

`import mq as zmq` runs programs written for pyzmq that use `inproc://` only.  Below the sockets lie
building blocks that can be used by themselves: YQueue, YPipe, Signaler, Mailbox, Command, Own.
"""

from mq import constants as constants
from mq.command import Command as Command
from mq.constants import *  # noqa: F403 - the constants are names of the package, as in pyzmq
from mq.context import Context as Context
from mq.errors import Again as Again
from mq.errors import ContextTerminated as ContextTerminated
from mq.errors import InterruptedSystemCall as InterruptedSystemCall
from mq.errors import MailboxClosed as MailboxClosed
from mq.errors import NotDone as NotDone
from mq.errors import ZMQBaseError as ZMQBaseError
from mq.errors import ZMQBindError as ZMQBindError
from mq.errors import ZMQError as ZMQError
from mq.errors import strerror as strerror
from mq.mailbox import Mailbox as Mailbox
from mq.message import _FINISHED_TRACKER as _FINISHED_TRACKER
from mq.message import Frame as Frame
from mq.message import Message as Message
from mq.message import MessageTracker as MessageTracker
from mq.own import Own as Own
from mq.poller import Poller as Poller
from mq.poller import select as select
from mq.poller import zmq_poll as zmq_poll
from mq.proxy import device as device
from mq.proxy import proxy as proxy
from mq.signaler import Signaler as Signaler
from mq.socket import Socket as Socket
from mq.ypipe import Empty as Empty
from mq.ypipe import YPipe as YPipe
from mq.yqueue import YQueue as YQueue

#: The API is pyzmq's; the protocol's behaviour is libzmq's of this version.
__version__ = "27.3.0"
COPY_THRESHOLD = 65536
DRAFT_API = False
IPC_PATH_MAX_LEN = 107


def zmq_version_info() -> tuple[int, int, int]:
    """The version of libzmq whose behaviour this is."""
    return (4, 3, 5)


def zmq_version() -> str:
    """The version of libzmq whose behaviour this is, as text."""
    return "4.3.5"


def pyzmq_version() -> str:
    """The version of pyzmq whose API this is."""
    return __version__


def has(capability: str) -> bool:
    """Whether an optional feature is there; the network's never are."""
    del capability
    return False
