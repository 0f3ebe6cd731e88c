"""The fixtures of the client's tests."""

import threading
import time

import pytest


@pytest.fixture
def no_sleep(monkeypatch):
    """Make `time.sleep` fail, except in the threads that ran before: py4j has one that sleeps."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    sleep = time.sleep

    def refuse(seconds):
        assert threading.current_thread() in others, f"slept for {seconds} s"
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", refuse)
