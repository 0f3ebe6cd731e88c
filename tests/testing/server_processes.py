"""Servers in processes of their own, for tests that kill them."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

from purgatory import OperationCancelled, OperationExpired
from purgatory.service import OperationFailed, ServiceFuture
from tests.testing.environments import without_pandas
from tests.testing.purgatory_harness import HANG, free_port

# Seconds until a start counts as a hang, on a busy machine.
START = 1.5 * HANG


class ServerProcess:
    """`purgatory serve` over a directory; `start` returns when it serves."""

    def __init__(self, directory: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._command = [
            sys.executable,
            "-m",
            "purgatory",
            "serve",
            "--data-dir",
            str(directory),
            "--bind",
            self.address,
            "--http-bind",
            "",
            *flags,
        ]
        # If a server hangs, SIGABRT ends it, and faulthandler prints the stacks of its threads.
        self._env = without_pandas() | {"PYTHONFAULTHANDLER": "1"} | (env or {})
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start the process; returns the first line that it prints."""
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._env
        )
        watchdog = threading.Timer(START, self.process.send_signal, [signal.SIGABRT])
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        watchdog.join()  # or its thread outlives the test
        if not line:
            raise AssertionError(self.process.communicate(timeout=HANG)[1])
        return line

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.process.kill()
        self.process.communicate(timeout=HANG)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; returns the exit code and what was written to stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=HANG)
        return self.process.returncode, errors

    def run_python(self, program: str, *arguments: str) -> str:
        """Run a Python program in another process; returns what it printed."""
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=HANG,
            env=self._env,
        ).stdout

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()
        self.process.stderr.close()


def outcome_of(future: ServiceFuture) -> str:
    """Return the outcome that the client got."""
    try:
        future.result(HANG)
    except OperationExpired:
        return "expired"
    except OperationCancelled:
        return "cancelled"
    except OperationFailed:
        return "failed"
    return "completed"
