"""The servers that `bench_service` compares: their processes, and the commands of our peers.

A `Peer` is used over a bare socket, with `BATCH` commands a message and `IN_FLIGHT` messages.
"""

import os
import socket
import subprocess
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path

BATCH = 100  # commands of a message
IN_FLIGHT = 8  # messages that are not answered yet
REDIS_PY = find_spec("redis") is not None  # whether `RedisPy` can be used
READY = 60.0  # seconds that a server may take to start, or to answer


class Process:
    """A server process, in a directory of its own."""

    def __init__(self, command: list[str], directory: Path) -> None:
        self.directory = directory
        self._process = subprocess.Popen(
            command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def switches(self) -> int:
        """Return how often a thread of the process gave up its processor, or lost it."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/status")
        lines = "".join(task.read_text(encoding="ascii") for task in tasks).splitlines()
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

    def end(self) -> None:
        """Terminate the process, and wait for its end."""
        self._process.terminate()
        self._process.wait()


class Peer:
    """A server that is used over a bare socket."""

    def __init__(self, command: list[str], directory: Path, port: int) -> None:
        self.process = Process(command, directory)
        deadline = time.monotonic() + READY
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._file = self._socket.makefile("rb")

    def submit(self, first: int, count: int) -> None:
        """See `Service.submit`."""
        sent: deque[range] = deque()
        for start in range(first, first + count, BATCH):
            sent.append(range(start, min(start + BATCH, first + count)))
            self._socket.sendall(b"".join(map(self.command, sent[-1])))
            if len(sent) >= IN_FLIGHT:
                self._receive(sent.popleft())
        while sent:
            self._receive(sent.popleft())

    def _receive(self, numbers: range) -> None:
        for _ in numbers:
            self.check(self._file.readline())

    def submit_one(self, number: int) -> None:
        """See `Service.submit_one`."""
        self._socket.sendall(self.command(number))
        self.check(self._file.readline())

    def command(self, number: int) -> bytes:
        """Return the bytes that submit an operation."""
        raise NotImplementedError

    def check(self, answer: bytes) -> None:
        """Check that an answer is that of a success."""
        raise NotImplementedError

    def end(self) -> None:
        """End the server."""
        self._file.close()
        self._socket.close()
        self.process.end()


class Redis(Peer):
    """Redis with a sorted set, scored by deadline."""

    def __init__(self, directory: Path, port: int) -> None:
        flags = ["--appendonly", "yes", "--appendfsync", "always", "--save"]
        super().__init__(["redis-server", "--port", str(port), *flags, ""], directory, port)

    def command(self, number: int) -> bytes:
        """See `Peer`."""
        score, member = str(number + 3_600_000).encode(), f"bench-{number:020}".encode()
        parts = [b"ZADD", b"waiting", score, member]
        return b"*4\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

    def check(self, answer: bytes) -> None:
        """See `Peer`."""
        assert answer == b":1\r\n", answer


class RedisPy(Redis):
    """Redis through redis-py, as Python programs use it."""

    def __init__(self, directory: Path, port: int) -> None:
        import redis  # noqa: PLC0415  # see `REDIS_PY`

        super().__init__(directory, port)
        self._redis = redis.Redis(port=port)

    def submit(self, first: int, count: int) -> None:
        """See `Service.submit`."""
        for start in range(first, first + count, BATCH):
            pipeline = self._redis.pipeline(transaction=False)
            for number in range(start, min(start + BATCH, first + count)):
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
    """beanstalkd with delayed jobs."""

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
