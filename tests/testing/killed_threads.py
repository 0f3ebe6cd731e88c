"""Exceptions that another thread raises in one of ours, at any place of it."""

import ctypes

import pytest


def killing(test):
    """Let the exceptions end a thread, and come in finalizers and in what reports those."""
    test = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")(test)
    return pytest.mark.usefixtures("unraisable_ignored")(test)


def kill(thread, error=SystemExit):
    """Raise an exception in a thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(error)
    )
