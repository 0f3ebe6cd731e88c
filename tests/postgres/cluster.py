"""A PostgreSQL with or without a streaming standby, in a directory of its own."""

import shutil
from pathlib import Path
from typing import Self

import psycopg

from tests.postgres.node import HANG, PostgresNode, copy_directory, initialise
from tests.postgres.programs import new_directory, own, run
from tests.testing.eventually import eventually

_template: Path | None = None


def template() -> Path:
    """Return an initialised directory, made once a process (`initdb` takes a second)."""
    global _template
    if _template is None:
        directory = new_directory()
        initialise(directory / "data")
        _template = directory / "data"
    return _template


def remove_template() -> None:
    """Remove the template, at the end of the tests."""
    global _template
    if _template is not None:
        shutil.rmtree(_template.parent)
        _template = None


class PostgresCluster:
    """A primary and perhaps a standby. Calls come from one thread at a time.

    `directory` has to be one that the server's user can reach; without it the cluster makes one in
    the temporary directory, and removes it at `close`. `standby` is None, "synchronous" or
    "asynchronous". `with` starts and closes it.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        standby: str | None = None,
        synchronous_standby: bool = False,
        settings: dict[str, str] | None = None,
    ) -> None:
        assert standby in (None, "synchronous", "asynchronous"), standby
        self._mode = "synchronous" if synchronous_standby else standby
        self._own_directory = directory is None
        self.directory = directory or new_directory()
        own(self.directory)
        copy_directory(template(), self.directory / "node1")
        self._settings = settings or {}
        self.primary = PostgresNode(self.directory / "node1", self._settings)
        self.standby: PostgresNode | None = None
        self._made = 1

    @property
    def url(self) -> str:
        """Return the URL of the database `postgres`: all nodes, of which one accepts writes."""
        return self.url_of()

    def url_of(self, database: str = "postgres", ports: list[int] | None = None) -> str:
        """Return a URL of all nodes, or through other ports: those of proxies."""
        if ports is None:
            ports = [node.port for node in self.nodes]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        several = "?target_session_attrs=read-write" if len(ports) > 1 else ""
        return f"postgresql://postgres@{hosts}/{database}{several}"

    @property
    def nodes(self) -> list[PostgresNode]:
        """The nodes, always in the order of their ports, whichever is the primary."""
        nodes = [node for node in (self.primary, self.standby) if node is not None]
        return sorted(nodes, key=lambda node: node.port)

    def start(self) -> None:
        """Start the nodes; at the first start the standby is made."""
        self.primary.start()
        if self.standby is not None:
            self.standby.start()
        elif self._mode is not None:
            self.add_standby()

    def stop(self, mode: str = "fast") -> None:
        """Stop the nodes, the primary first: the standby gets all that was written."""
        self.primary.stop(mode)
        if self.standby is not None:
            self.standby.stop(mode)

    def kill(self) -> None:
        """Crash all nodes."""
        for node in self.nodes:
            if node.is_running:
                node.kill()

    def pause(self) -> None:
        """Freeze the primary."""
        self.primary.pause()

    def resume(self) -> None:
        """Let the primary go on."""
        self.primary.resume()

    def add_standby(self, port: int | None = None) -> None:
        """Copy the primary, start the copy as its standby, and wait until it follows."""
        assert self.standby is None, "it has a standby"
        self._made += 1
        directory = self.directory / f"node{self._made}"
        run(
            "pg_basebackup",
            *("--pgdata", directory, "--dbname", self.primary.url().rpartition("/")[0]),
            *("--write-recovery-conf", "--checkpoint", "fast", "--no-sync"),
        )
        self.standby = PostgresNode(directory, self._settings)
        if port is not None:
            self.standby.port = port
        self.standby.start()
        self.wait_for_standby()
        if self._mode == "synchronous":
            self.primary.set("synchronous_standby_names", "*")
            self.wait_for_standby("sync")

    def wait_for_standby(self, state: str = "") -> None:
        """Return once the standby streams, and is in a state (`sync`), if one is given."""
        eventually(
            lambda: self._follows(state),
            lambda: f"no standby follows:\n{self.primary.log()}",
            HANG,
        )

    def _follows(self, state: str) -> bool:
        try:
            rows = self.primary.execute("SELECT state, sync_state FROM pg_stat_replication")
        except psycopg.OperationalError:
            return False
        return any(row[0] == "streaming" and state in row[1] for row in rows)

    def fail_over(self) -> PostgresNode:
        """Crash the primary if it runs, and promote the standby; returns the crashed node."""
        assert self.standby is not None, "there is no standby"
        if self.primary.is_running:
            self.primary.kill()
        crashed, self.primary, self.standby = self.primary, self.standby, None
        self.primary.promote()
        return crashed

    def rejoin(self, crashed: PostgresNode) -> None:
        """Make the crashed node anew, as the standby of the promoted one, on its old port."""
        shutil.rmtree(crashed.directory)
        self.add_standby(crashed.port)

    def walsenders(self) -> list[int]:
        """Return the processes that send to the standby; without them replication stands still."""
        return self.primary.pids_of("walsender")

    def close(self) -> None:
        """End all processes, and remove the directory."""
        for node in self.nodes:
            node.close()
        if self._own_directory:
            shutil.rmtree(self.directory)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
