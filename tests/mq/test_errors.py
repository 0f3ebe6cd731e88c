"""Errors with pyzmq's numbers and texts."""

import errno
import os
import pickle

import pytest

import mq as zmq


@pytest.mark.parametrize(
    ("error", "errno", "text"),
    [
        (zmq.ZMQError(zmq.EFSM), zmq.EFSM, "Operation cannot be accomplished in current state"),
        (zmq.ZMQError(2), 2, os.strerror(2)),
        (zmq.ZMQError(2, "own text"), 2, "own text"),
        (zmq.ZMQError(), None, "None"),
        (zmq.Again(), zmq.EAGAIN, os.strerror(zmq.EAGAIN)),
        (zmq.ContextTerminated(), zmq.ETERM, "Context was terminated"),
        (zmq.InterruptedSystemCall(), errno.EINTR, os.strerror(errno.EINTR)),
        (zmq.MailboxClosed("closed"), zmq.ENOTSOCK, "closed"),
    ],
)
def test_number_and_text(error, errno, text):
    """An error has a number, and the text of that number unless the caller gave one."""
    assert error.errno == errno
    assert (error.strerror, str(error)) == (text, text)
    assert repr(error) == f"{type(error).__name__}({text!r})"


def test_arguments_are_the_callers():
    """As in pyzmq: what the caller gave, and no more."""
    errors = zmq.ZMQError(2), zmq.ZMQError(2, "own text"), zmq.ZMQError(errno=2), zmq.Again()
    assert [error.args for error in errors] == [(2,), (2, "own text"), (), ()]


def test_an_error_can_be_pickled():
    """It passes between processes with its number."""
    found = pickle.loads(pickle.dumps(zmq.ZMQError(zmq.EFSM)))
    assert (type(found), found.errno) == (zmq.ZMQError, zmq.EFSM)
