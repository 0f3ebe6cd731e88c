"""How threads talk: ZeroMQ's in-process layer with pyzmq's API."""

from mq.errors import MailboxClosed as MailboxClosed
from mq.mailbox import Mailbox as Mailbox
from mq.signaler import Signaler as Signaler
from mq.ypipe import Empty as Empty
from mq.ypipe import YPipe as YPipe
from mq.yqueue import YQueue as YQueue
