"""The log as text and as JSON, the limit of open files, notifications to systemd."""

import datetime as dt
import errno
import io
import json
import logging
import os
import resource
import signal
import socket
import sys

import pytest

from purgatory.cli import entry_point as cli
from purgatory.cli.process import (
    JsonFormatter,
    TerminalHandler,
    TextFormatter,
    heed_sigterm,
    notify,
    raise_descriptor_limit,
)
from tests.purgatory.test_printable import HOSTILE
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess


def record(message, *args, extra=None, exc_info=None):
    """Return a record as a logger makes it."""
    return logging.getLogger("shop").makeRecord(
        "shop", logging.WARNING, "file.py", 7, message, args, exc_info, extra=extra
    )


def formatted(one):
    """Return the object in the line of a record."""
    line = JsonFormatter().format(one)
    assert "\n" not in line
    return json.loads(line)


@pytest.mark.parametrize("text", HOSTILE)
class TestTextsOfOthers:
    def test_a_message(self, text):
        """A text of a client begins no line of the log, and has no character that acts."""
        line = TextFormatter().format(record("client '%s': cut off", text))
        assert line.isprintable()
        line = JsonFormatter().format(record("cut off", extra={"client": text}))
        assert line.isprintable()
        assert json.loads(line)["fields"] == {"client": text}

    def test_a_traceback(self, text):
        """An error's text neither, nor one of a stack."""
        try:
            raise ValueError(text)
        except ValueError:
            one = record("x", exc_info=sys.exc_info())
        one.stack_info = f"Stack:\n{text}"
        first, *others = TextFormatter().format(one).split("\n")
        assert first.endswith("WARNING shop: x")
        assert all(line.isprintable() and line.startswith("  ") for line in others)
        assert JsonFormatter().format(one).isprintable()


class TestJsonFormatter:
    def test_what_a_line_has(self):
        """Time, level, logger, thread and message; the time is UTC."""
        one = record("client %r\nis cut off", "bücher")
        line = formatted(one)
        moment = dt.datetime.fromisoformat(line.pop("time"))
        assert moment.utcoffset() == dt.timedelta(0)
        assert abs(moment.timestamp() - one.created) < 0.001
        assert line == {
            "level": "WARNING",
            "logger": "shop",
            "thread": "MainThread",
            "message": "client 'bücher'\nis cut off",
        }

    def test_fields(self):
        """What is given as `extra`; what JSON does not know is text."""
        line = formatted(record("x", extra={"client": "a", "size": 3, "key": b"k"}))
        assert line["fields"] == {"client": "a", "size": 3, "key": "b'k'"}

    def test_an_exception(self):
        """Its traceback is one text."""
        try:
            raise ValueError("why")
        except ValueError:
            line = formatted(record("x", exc_info=sys.exc_info()))
        assert line["exception"].startswith("Traceback")
        assert line["exception"].endswith("ValueError: why")


@pytest.mark.usefixtures("no_thread_is_left")
class TestServe:
    def test_each_line_is_an_object(self, tmp_path):
        """Also of a server that logs all that it does."""
        flags = ["--log-format", "json", "--verbose", "--http-bind", "127.0.0.1:0"]
        with ServerProcess(tmp_path / "data", *flags) as serve:
            code, errors = serve.end(signal.SIGTERM)
        assert code == 0
        lines = [json.loads(line) for line in errors.splitlines()]
        assert [line["message"] for line in lines] == ["serving", "ending"]
        assert lines[0]["fields"] == {"address": serve.address, "pending": 0}
        assert lines[1]["fields"] == {"signal": "SIGTERM"}

    def test_a_format_that_is_not_known(self, capsys):
        """It is refused, in a line."""
        assert cli.main(["serve", "--log-format", "xml"]) == cli.FAILED
        assert capsys.readouterr().err == (
            "purgatory: log_format is 'xml'; expected text or json\n"
        )


class TestDescriptors:
    def test_the_limit_is_raised(self):
        """To what the system allows, and never lowered."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
            raise_descriptor_limit()
            raised = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            assert raised > 512
            raise_descriptor_limit()
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == raised
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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


def test_sigterm_for_other_processes():
    """It does what it did: only the first one has no default."""
    before = signal.getsignal(signal.SIGTERM)
    heed_sigterm()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("is_terminal", "begin"), [(True, "\r\x1b[K"), (False, "")])
def test_a_record_begins_a_line(is_terminal, begin):
    """The line of a long command is erased before; a file gets no escape sequence."""

    class Stream(io.StringIO):
        def isatty(self):
            return is_terminal

    handler = TerminalHandler(Stream())
    handler.handle(record("migrated"))
    assert handler.stream.getvalue() == f"{begin}migrated\n"


def test_a_terminal_that_goes_away_raises_in_no_caller(monkeypatch):
    """As other streams: the log is for people."""

    class Stream(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(logging, "raiseExceptions", False)
    TerminalHandler(Stream()).handle(record("migrated"))
