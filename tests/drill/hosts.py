"""Server processes of a drill, each with a link of its own to each node of the database."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.postgres.cluster import PostgresCluster
from tests.postgres.proxy import Link, Proxy
from tests.testing.frozen_process import freeze
from tests.testing.purgatory_harness import free_port

#: Seconds after which a server that does not start or end hangs.
HANG = 60.0


class Host:
    """A server process. One thread at a time starts and ends it.

    `handicap` names defences that the server lacks, see `handicapped`.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        cluster: PostgresCluster,
        *,
        takeover_after: float = 2.0,
        handicap: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._cluster = cluster
        self.proxies = [Proxy(node.port) for node in cluster.nodes]
        self.log_path = directory / f"{name}.log"
        program = (
            ["-m", "tests.drill.handicapped", *handicap, "--"] if handicap else ["-m", "purgatory"]
        )
        self._command = [
            *(sys.executable, *program, "serve"),
            *("--store", self.store_url, "--takeover-after", str(takeover_after)),
            *("--bind", self.address, "--advertise", self.address, "--http-bind", ""),
            *("--data-dir", str(directory / name), "--no-journal"),
        ]
        self._log_before = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def store_url(self) -> str:
        """The URL of the store, through this host's links."""
        return self._cluster.url_of(ports=[proxy.port for proxy in self.proxies])

    @property
    def is_running(self) -> bool:
        """Whether the process is there, stopped or not."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process; it stands by or takes over on its own."""
        assert not self.is_running, f"{self.name} runs"
        self._log_before = len(self.log_path.read_bytes()) if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"},
            )

    @property
    def is_up(self) -> bool:
        """Whether it has said, since its start, that it serves or stands by."""
        said = self.log_path.read_bytes()[self._log_before :]
        return self.is_running and (b"serving at" in said or b"standby" in said)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None, f"{self.name} does not run"
        self.process.send_signal(number)

    def freeze(self) -> None:
        """Stop the process, until SIGCONT."""
        assert self.process is not None, f"{self.name} does not run"
        freeze(self.process.pid)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.signal(signal.SIGKILL)
        self.process.wait(HANG)

    def terminate(self) -> float:
        """End it in order; returns the seconds that it took, and checks how it ended."""
        start = time.monotonic()
        self.signal(signal.SIGTERM)
        code = self.process.wait(HANG)
        assert code == 0, f"{self.name} ended with {code}:\n{self.log()}"
        return time.monotonic() - start

    def link(self, link: Link, delay_s: float = 0.0) -> None:
        """Change all its links to the database."""
        for proxy in self.proxies:
            proxy.set(link, delay_s)

    @property
    def swallowed(self) -> int:
        """How many bytes its links have swallowed."""
        return sum(proxy.swallowed for proxy in self.proxies)

    def log(self, lines: int = 30) -> str:
        """Return the end of what it has logged."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def count_in_log(self, text: str) -> int:
        """Return how often it has logged a text."""
        return (
            self.log_path.read_text(errors="replace").count(text) if self.log_path.exists() else 0
        )

    def close(self) -> None:
        """End the process and the links."""
        if self.is_running:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        for proxy in self.proxies:
            proxy.close()
