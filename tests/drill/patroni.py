"""Four leaders of a PostgreSQL under Patroni are killed: `python -m tests.drill.patroni`.

It needs the programs `patroni` (of the Python package `patroni[etcd3,psycopg3]`) and `etcd` (of
Debian's `etcd-server`), on the path or by `--patroni` and `--etcd`. There are three nodes in
synchronous mode, two servers, and the load of the drill. Each time SIGKILL ends Patroni and
PostgreSQL of the leader; the node comes back as a replica. The exit code is 1 if a promise was
broken. Not in CI: Patroni needs half a minute for each kill.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from tests.drill.books import Books
from tests.drill.clock import now
from tests.drill.hosts import Host
from tests.drill.load import Load
from tests.drill.observers import Observers
from tests.postgres.programs import directory_of_programs, identity, new_directory
from tests.testing.purgatory_harness import free_port

#: Seconds after which something that does not come hangs.
HANG = 180.0
#: Patroni's least; a leader that is gone is replaced after so many seconds.
TTL_S = 20
NODES = 3


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return once a condition is true."""
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, f"it never came: {what}"
        time.sleep(0.1)


class PatroniNode:
    """A Patroni with its PostgreSQL. One thread starts and kills it."""

    def __init__(self, name: str, directory: Path, program: str, etcd_port: int) -> None:
        self.name, self.port, self._rest_port = name, free_port(), free_port()
        self.data = directory / name
        self._log_path, settings = directory / f"{name}.log", directory / f"{name}.json"
        settings.write_text(json.dumps(self._settings(directory, etcd_port)))
        self._command = [program, str(settings)]
        self.process: subprocess.Popen[bytes] | None = None

    def _settings(self, directory: Path, etcd_port: int) -> dict[str, object]:
        parameters = {"unix_socket_directories": "", "max_connections": "60", "jit": "off"}
        user = {"username": "postgres"}
        address = f"127.0.0.1:{self.port}"
        rest = f"127.0.0.1:{self._rest_port}"
        dcs = {"ttl": TTL_S, "loop_wait": 2, "retry_timeout": 3, "maximum_lag_on_failover": 0}
        synchronous = {"synchronous_mode": True, "synchronous_mode_strict": True}
        hba = ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
        return {
            "scope": "purgatory",
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"127.0.0.1:{etcd_port}"},
            "bootstrap": {
                "dcs": {**dcs, **synchronous, "postgresql": {"parameters": parameters}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(self.data),
                "bin_dir": str(directory_of_programs()),
                "pgpass": str(directory / f"{self.name}.pgpass"),
                "authentication": {"superuser": user, "replication": user},
                "pg_hba": hba,
                "remove_data_directory_on_diverged_timelines": True,
                "remove_data_directory_on_rewind_failure": True,
            },
        }

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **identity(),
            )

    def kill(self) -> None:
        """SIGKILL to Patroni, and to all processes of PostgreSQL."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process = None
        with suppress(FileNotFoundError):
            first = int((self.data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            for pid in [first, *map(int, children)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def members(self) -> list[dict[str, object]]:
        """Return what this node knows of all; nothing if it does not answer."""
        with suppress(OSError, ValueError):
            url = f"http://127.0.0.1:{self._rest_port}/cluster"
            with urllib.request.urlopen(url, timeout=2) as answer:
                return json.load(answer)["members"]
        return []


class PatroniCluster:
    """Etcd and the nodes; `Host` takes it for a `PostgresCluster`."""

    def __init__(self, directory: Path, patroni: str, etcd: str) -> None:
        self.directory = directory
        self._ports = free_port(), free_port()
        self._etcd = etcd
        self.nodes = [
            PatroniNode(f"node{n}", directory, patroni, self._ports[0]) for n in range(NODES)
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def url_of(self, database: str = "postgres", ports: list[int] | None = None) -> str:
        """Return a URL of all nodes, through other ports: those of proxies."""
        assert ports is not None
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://postgres@{hosts}/{database}"

    def __enter__(self) -> Self:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports)
        options = {
            "name": "one",
            "data-dir": str(self.directory / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"one={peer}",
        }
        command = [
            self._etcd,
            *(part for name, text in options.items() for part in (f"--{name}", text)),
        ]
        with (self.directory / "etcd.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **identity())
        try:
            for node in self.nodes:
                node.start()
            self.wait_until_whole()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        for node in self.nodes:
            node.kill()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _members(self) -> list[dict[str, object]]:
        return next(filter(None, (node.members() for node in self.nodes)), [])

    def _names_of(self, role: str) -> list[object]:
        running = ("running", "streaming")
        return [
            one["name"]
            for one in self._members()
            if one["role"] == role and one["state"] in running
        ]

    def _is_whole(self) -> bool:
        standbys = self._names_of("sync_standby") + self._names_of("replica")
        return len(standbys) == NODES - 1 and bool(self._names_of("sync_standby"))

    def wait_until_whole(self) -> None:
        """Return once there are a leader and two replicas, one of them synchronous."""
        wait_until(lambda: bool(self._names_of("leader")) and self._is_whole(), "a whole cluster")

    def leader(self) -> PatroniNode:
        """Return the node of the leader."""
        [name] = self._names_of("leader")
        return next(node for node in self.nodes if node.name == name)


def play(cluster: PatroniCluster, directory: Path, kills: int, seed: int) -> int:
    """Kill leaders under load; returns the exit code."""
    books = Books()
    with ExitStack() as parts:
        hosts = [Host(name, directory, cluster) for name in ("a", "b")]
        for host in hosts:
            parts.callback(host.close)
            host.start()
            wait_until(lambda host=host: host.is_up, f"server {host.name}: {host.log()}")
        load = Load(",".join(host.address for host in hosts), books, seed)
        parts.callback(load.close)
        observers = Observers(books, [host.address for host in hosts], seed)
        load.start()
        observers.start()
        parts.callback(observers.stop)
        wait_until(lambda: books.first_ack_after(0.0) is not None, "a first acknowledgement")
        for number in range(1, kills + 1):
            leader, moment = cluster.leader(), now()
            leader.kill()
            wait_until(lambda moment=moment: books.first_ack_after(moment) is not None, "an answer")
            say(f"{number}: {leader.name} killed, {books.first_ack_after(moment) - moment:.1f} s")
            leader.start()
            cluster.wait_until_whole()
        load.stop()
        assert not load.failures, load.failures
    violations = books.check()
    say(f"load: {books.summary()}, answers to observers: {dict(observers.answers)}")
    say(f"broken promises: {[(each.kind, each.text) for each in violations[:20]] or 'none'}")
    return 1 if violations else 0


def main() -> int:
    """Play it, and leave the logs in `build/patroni`."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill.patroni", description=__doc__)
    parser.add_argument("--patroni", default=shutil.which("patroni") or "patroni")
    parser.add_argument("--etcd", default=shutil.which("etcd") or "etcd")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    directory = new_directory()
    own_directory = Path(tempfile.mkdtemp(prefix="purgatory-drill-"))
    try:
        with PatroniCluster(directory, arguments.patroni, arguments.etcd) as cluster:
            return play(cluster, own_directory, arguments.kills, arguments.seed)
    finally:
        logs = Path("build/patroni")
        logs.mkdir(parents=True, exist_ok=True)
        for log in [*directory.glob("*.log"), *own_directory.glob("*.log")]:
            shutil.copy(log, logs / log.name)
        shutil.rmtree(directory)
        shutil.rmtree(own_directory)


if __name__ == "__main__":
    sys.exit(main())
