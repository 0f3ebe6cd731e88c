"""One PostgreSQL server over a directory: it starts, stops, crashes and pauses."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.postgres.programs import command, identity, own, run
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import free_port

#: Seconds after which a server that does not start, stop or follow hangs.
HANG = 60.0
#: Nothing here survives a power cut; a crash of the processes loses nothing by it.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_wal_size": "512MB",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "max_replication_slots": "4",
    "hot_standby": "on",
    "autovacuum_naptime": "10s",
    "logging_collector": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "jit": "off",
}
#: Signals that `stop` sends, as `pg_ctl stop -m` does.
MODES = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


def initialise(directory: Path) -> None:
    """Make an empty database cluster."""
    run(
        "initdb",
        *("--pgdata", directory, "--username", "postgres", "--auth", "trust"),
        *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
    )


class PostgresNode:
    """One server. Calls come from one thread at a time."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self._settings = SETTINGS | (settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def set(self, name: str, value: str) -> None:
        """Change a setting; a running server has it at once, if it can without a start."""
        self._settings[name] = value
        if self._process is not None:
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            self.execute("SELECT pg_reload_conf()")

    def start(self, *, wait: bool = True) -> None:
        """Start the server; returns when it can be asked, or at once."""
        assert self._process is None, "it runs"
        # What `set` wrote into a file is given on the command line, which counts more.
        (self.directory / "postgresql.auto.conf").open("a").close()
        log = (self.directory.parent / f"{self.directory.name}.log").open("ab")
        options = [part for name in self._settings for part in ("-c", self._option(name))]
        with log:
            self._process = subprocess.Popen(
                command("postgres", "-D", self.directory, "-p", self.port, *options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **identity(),
            )
        if wait:
            self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        """Return once a session can be opened."""
        eventually(self._answers, lambda: f"the server does not answer:\n{self.log()}", HANG)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            assert self.is_running, f"the server ended:\n{self.log()}"
            return False
        return True

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not."""
        return self._process is not None and self._process.poll() is None

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: `smart`, `fast` or `immediate`, as `pg_ctl` has it."""
        process = self._running()
        process.send_signal(MODES[mode])
        process.wait(HANG)
        self._process = None

    def kill(self) -> None:
        """Crash: SIGKILL to each process of the server, so that none writes on."""
        process = self._running()
        # A stopped postmaster starts no further process.
        process.send_signal(signal.SIGSTOP)
        children = self.children()
        process.kill()
        process.wait(HANG)
        for child in children:
            _signal(child, signal.SIGKILL)
        eventually(
            lambda: not any(map(_is_alive, children)), lambda: "a process survives SIGKILL", HANG
        )
        self._process = None

    def pause(self) -> None:
        """Stop all its processes (SIGSTOP); its kernel still confirms packets."""
        self._running().send_signal(signal.SIGSTOP)
        for child in self.children():
            _signal(child, signal.SIGSTOP)

    def resume(self) -> None:
        """Let all its processes go on."""
        for child in self.children():
            _signal(child, signal.SIGCONT)
        self._running().send_signal(signal.SIGCONT)

    def restart(self, mode: str = "fast") -> None:
        """Stop the server and start it."""
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        """Make a standby a primary; returns when it accepts writes."""
        run("pg_ctl", "promote", "-D", self.directory, "-w", "-s")

    @property
    def pid(self) -> int:
        """Return the number of its first process."""
        return self._running().pid

    def children(self) -> list[int]:
        """Return its other processes."""
        tasks = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in tasks.read_text().split()]

    def pids_of(self, kind: str) -> list[int]:
        """Return its processes whose title has this word: `walsender`, `walreceiver`."""
        return [pid for pid in self.children() if kind in _title(pid)]

    def connect(self, database: str = "postgres", **options: object) -> psycopg.Connection:
        """Open a session, in autocommit."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=5, **options)

    def execute(self, sql: str, *arguments: object, database: str = "postgres") -> list[tuple]:
        """Run one statement in a session of its own; returns its rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(sql, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database in it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def log(self, lines: int = 30) -> str:
        """Return the end of its log."""
        path = self.directory.parent / f"{self.directory.name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """End the server, whatever it does."""
        if self._process is not None:
            self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it does not run"
        return self._process

    def _option(self, name: str) -> str:
        return f"{name}={self._settings[name]}"


def copy_directory(source: Path, target: Path) -> None:
    """Copy the files of a server that is stopped."""
    shutil.copytree(source, target)
    for path, _, files in os.walk(target):
        own(Path(path))
        for name in files:
            own(Path(path) / name)
    target.chmod(0o700)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_alive(pid: int) -> bool:
    # A zombie waits for whoever adopted it, and writes nothing.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _title(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""
