"""Tells systemd the state of a service of `Type=notify`. Any thread."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(*states: str) -> None:
    """Send lines such as `READY=1`; does nothing without a service manager."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto("\n".join(states).encode(), address)
