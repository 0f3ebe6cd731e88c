"""Notifications to systemd."""

import os
import socket

from purgatory.service.systemd import notify
from tests.testing.purgatory_harness import HANG


def test_no_manager(monkeypatch, tmp_path):
    """Without a manager, or after its end, nothing happens."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")


def test_an_abstract_socket(monkeypatch):
    """systemd writes its name with an @."""
    name = f"purgatory-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(HANG)
        notify("READY=1", "STATUS=well")
        assert manager.recv(100) == b"READY=1\nSTATUS=well"
