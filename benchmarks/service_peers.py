"""The servers that `bench_service` compares: their processes, and the peers' commands.

`Peer` is a server over a bare socket, `AT_ONCE` commands a message and `UNDER_WAY` messages.
"""

import os
import socket
import subprocess
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path

AT_ONCE = 100  # commands in one go
UNDER_WAY = 8  # such messages, over a bare socket
REDIS_PY = find_spec("redis") is not None  # whether there can be a `RedisPy`
READY = 60.0  # seconds that a server may take to come up


class Process:
    """A server in a process, in a directory of its own."""

    def __init__(self, command: list[str], directory: Path) -> None:
        self.directory = directory
        self._process = subprocess.Popen(
            command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def cpu_seconds(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Have it end, and wait for that."""
        self._process.terminate()
        self._process.wait()


class Peer:
    """A server that is spoken to over a bare socket."""

    def __init__(self, command: list[str], directory: Path, port: int) -> None:
        self.process = Process(command, directory)
        give_up_at = time.monotonic() + READY
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)
        self._file = self._socket.makefile("rb")

    def submit(self, first: int, count: int) -> None:
        """See `Service.submit`."""
        sent: deque[range] = deque()
        for start in range(first, first + count, AT_ONCE):
            sent.append(range(start, min(start + AT_ONCE, first + count)))
            self._socket.sendall(b"".join(map(self.command, sent[-1])))
            if len(sent) >= UNDER_WAY:
                self._hear(sent.popleft())
        while sent:
            self._hear(sent.popleft())

    def _hear(self, numbers: range) -> None:
        for _ in numbers:
            self.check(self._file.readline())

    def submit_one(self, number: int) -> None:
        """See `Service.submit_one`."""
        self._socket.sendall(self.command(number))
        self.check(self._file.readline())

    def command(self, number: int) -> bytes:
        """What submits an operation."""
        raise NotImplementedError

    def check(self, answer: bytes) -> None:
        """See that it was done."""
        raise NotImplementedError

    def end(self) -> None:
        """End the server."""
        self._file.close()
        self._socket.close()
        self.process.end()


class Redis(Peer):
    """A sorted set, scored by deadline."""

    def __init__(self, directory: Path, port: int) -> None:
        flags = ["--appendonly", "yes", "--appendfsync", "always", "--save"]
        super().__init__(["redis-server", "--port", str(port), *flags, ""], directory, port)

    def command(self, number: int) -> bytes:
        """See `Peer`."""
        deadline, member = str(number + 3_600_000).encode(), f"bench-{number:020}".encode()
        parts = [b"ZADD", b"waiting", deadline, member]
        return b"*4\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

    def check(self, answer: bytes) -> None:
        """See `Peer`."""
        assert answer == b":1\r\n", answer


class RedisPy(Redis):
    """The same, as a Python program speaks to it."""

    def __init__(self, directory: Path, port: int) -> None:
        import redis  # noqa: PLC0415  # see `REDIS_PY`

        super().__init__(directory, port)
        self._redis = redis.Redis(port=port)

    def submit(self, first: int, count: int) -> None:
        """See `Service.submit`."""
        for start in range(first, first + count, AT_ONCE):
            pipeline = self._redis.pipeline(transaction=False)
            for number in range(start, min(start + AT_ONCE, first + count)):
                pipeline.zadd("waiting", {f"bench-{number:020}": number + 3_600_000})
            assert all(pipeline.execute())

    def submit_one(self, number: int) -> None:
        """See `Service.submit_one`."""
        assert self._redis.zadd("waiting", {f"bench-{number:020}": number + 3_600_000})

    def end(self) -> None:
        """End the server."""
        self._redis.close()
        super().end()


class Beanstalkd(Peer):
    """A delayed job."""

    def __init__(self, directory: Path, port: int) -> None:
        command = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(directory), "-f0"]
        super().__init__(command, directory, port)

    def command(self, number: int) -> bytes:
        """See `Peer`."""
        body = f"bench-{number:020}".encode()
        return b"put 0 3600 60 %d\r\n%s\r\n" % (len(body), body)

    def check(self, answer: bytes) -> None:
        """See `Peer`."""
        assert answer.startswith(b"INSERTED"), answer
