"""Exceptions that another thread raises in one of ours, at any place of it."""

import ctypes

import pytest

# A worker that is replaced ends with the exception that killed it.
killing = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",  # in a finalizer, or a weak reference's
)


def kill(thread, error=SystemExit):
    """Raise an exception in a thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(error)
    )
