"""A server that strangers leave without descriptors."""

import contextlib
import errno
import os
import resource
import socket
import time

import pytest

from purgatory.service.server.sockets.descriptor_watch import DescriptorWatch
from tests.testing.purgatory_harness import HANG

LINE = "no connection can be accepted at present: Too many open files"


def test_one_line_a_minute(monkeypatch, caplog):
    """However often it is checked."""
    now = [1000.0]
    watch = DescriptorWatch(lambda: now[0])
    copied = []

    def refuse(descriptor):
        copied.append(descriptor)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", refuse)
    for _ in range(1200):
        watch.check(7)
        now[0] += 0.1
    first, second = caplog.messages
    assert first == LINE
    assert second.startswith(f"{LINE} (and ")
    assert len(copied) <= 120


@contextlib.contextmanager
def no_descriptors():
    """Let the process open no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("words", [b"", b"\xff" + bytes(8) + b"\x7f\x03", b"GET / HTTP/1.1\r\n"])
def test_out_of_descriptors(serve, connect, peer, caplog, words):
    """The clients that are there are served; others are as soon as there is room."""
    server = serve()
    client = connect(server)
    client.stats()
    host, port = server.address.removeprefix("tcp://").split(":")
    late = peer(server)
    strangers = [socket.socket() for _ in range(50)]
    for one in strangers:
        one.settimeout(HANG)
    with no_descriptors():
        for one in strangers:
            one.connect((host, int(port)))
            one.sendall(words)
        deadline = time.monotonic() + HANG
        count = 0
        while LINE not in caplog.messages or count < 20:
            assert time.monotonic() < deadline
            client.defer(f"k{count}", timeout=HANG)
            client.flush()
            count += 1
    assert caplog.messages.count(LINE) == 1
    late.hello()
    assert client.complete("k0") == 1
    for one in strangers:
        one.close()
