"""The faults of a drill. Each happens, is undone, and returns what it did; or None if it could not.

`Faults` are chosen in an order of chance in which each kind comes as often as any other.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg

from tests.drill.clock import now
from tests.postgres.proxy import Link
from tests.testing.frozen_process import freeze

if TYPE_CHECKING:
    from tests.drill.drill import Drill

Fault = Callable[["Drill", random.Random], bool]


def pause(seconds: float) -> None:
    """Let a fault last."""
    time.sleep(seconds)


def kill_active(drill: "Drill", dice: random.Random) -> bool:
    """SIGKILL; the standby takes over, and the killed one comes back as a standby."""
    host, moment = drill.active(), now()
    host.kill()
    drill.measure("kill -9 of the active", moment)
    host.start()
    return True


def kill_standby(drill: "Drill", dice: random.Random) -> bool:
    """SIGKILL, and a start."""
    host = drill.standby()
    host.kill()
    pause(dice.uniform(0, 1))
    host.start()
    return True


def stop_active(drill: "Drill", dice: random.Random) -> bool:
    """SIGSTOP for 0.2 to 6 s."""
    return _stop(drill.active(), dice)


def stop_standby(drill: "Drill", dice: random.Random) -> bool:
    """Likewise."""
    return _stop(drill.standby(), dice)


def _stop(host, dice: random.Random) -> bool:
    host.freeze()
    pause(dice.uniform(0.2, 6))
    host.signal(signal.SIGCONT)
    return True


def restart_active(drill: "Drill", dice: random.Random) -> bool:
    """SIGTERM: it hands over at once."""
    host, moment = drill.active(), now()
    host.terminate()
    drill.measure_gap("SIGTERM of the active", moment)
    host.start()
    return True


def handover(drill: "Drill", dice: random.Random) -> bool:
    """`purgatory store handover`."""
    before, moment = drill.active(), now()
    command = [sys.executable, "-m", "purgatory", "store", "handover"]
    ended = subprocess.run(
        [*command, "--store", drill.cluster.url], capture_output=True, text=True, timeout=60
    )
    if ended.returncode == 1:  # no standby has registered yet
        return False
    assert ended.returncode == 0, ended.stderr
    drill.wait_until(lambda: drill.active() is not before)
    drill.measure_gap("planned handover", moment)
    return True


def end_backends(drill: "Drill", dice: random.Random) -> bool:
    """Terminate sessions of the servers, here and there."""
    return _hit(drill, dice, "pg_terminate_backend", "true")


def cancel_commits(drill: "Drill", dice: random.Random) -> bool:
    """Cancel what sessions of the servers do; with a standby, while they wait for it."""
    senders = drill.cluster.walsenders() if drill.cluster.standby is not None else []
    if not senders:
        return _hit(drill, dice, "pg_cancel_backend", "state = 'active'", 400)
    for pid in senders:
        freeze(pid)
    try:
        pause(0.2)
        return _hit(drill, dice, "pg_cancel_backend", "wait_event = 'SyncRep'", 40)
    finally:
        for pid in senders:
            os.kill(pid, signal.SIGCONT)


def _hit(
    drill: "Drill", dice: random.Random, function: str, condition: str, rounds: int = 8
) -> bool:
    hits = 0
    sql = (
        f"SELECT count(*) FILTER (WHERE {function}(pid)) FROM pg_stat_activity "
        f"WHERE application_name LIKE 'purgatory:%' AND {condition} AND random() < 0.5"
    )
    with drill.cluster.primary.connect() as connection:
        for _ in range(rounds):
            hits += connection.execute(sql).fetchone()[0]
            if hits >= 8:
                break
            pause(dice.uniform(0, 0.1) if rounds < 100 else 0.001)
    drill.hits[function] += hits
    return hits > 0


def crash_database(drill: "Drill", dice: random.Random) -> bool:
    """SIGKILL to all processes of the primary, and a start over what it has written."""
    drill.cluster.primary.kill()
    pause(dice.uniform(0, 2))
    drill.cluster.primary.start()
    drill.measure("the database accepts writes", now())
    return True


def fail_over_database(drill: "Drill", dice: random.Random) -> bool:
    """SIGKILL to all processes of the primary; its standby is promoted, and gets a new one."""
    if drill.cluster.standby is None:
        return False
    drill.cluster.wait_for_standby("sync")
    crashed = drill.cluster.fail_over()
    promoted_at = now()
    drill.cluster.rejoin(crashed)
    drill.measure("promotion and a new standby", promoted_at)
    return True


def freeze_database(drill: "Drill", dice: random.Random) -> bool:
    """SIGSTOP to all processes of the primary: its kernel still confirms what it gets."""
    drill.cluster.pause()
    pause(dice.uniform(0.2, 4))
    drill.cluster.resume()
    return True


def swallow(drill: "Drill", dice: random.Random) -> bool:
    """The active's link to the database swallows everything, for up to 5 s."""
    host = drill.active()
    before = host.swallowed
    host.link(dice.choice((Link.SWALLOW, Link.SWALLOW_ANSWERS, Link.SWALLOW_REQUESTS)))
    pause(dice.uniform(0.5, 5))
    host.link(Link.FORWARD)
    return host.swallowed > before


def cut(drill: "Drill", dice: random.Random) -> bool:
    """The active's link to the database resets all connections, for up to 4 s."""
    host = drill.active()
    host.link(Link.CUT)
    pause(dice.choice((0.0, dice.uniform(0, 4))))
    host.link(Link.FORWARD)
    return True


def lose_an_answer(drill: "Drill", dice: random.Random) -> bool:
    """A commit of the active reaches the database, and its answer is lost: it is in doubt."""
    host = drill.active()
    for proxy in host.proxies:
        proxy.cut_at(b"COMMIT", Link.SWALLOW_ANSWERS)
    drill.wait_until(lambda: any(p.link is Link.SWALLOW_ANSWERS for p in host.proxies))
    pause(dice.uniform(0, 3))
    host.link(Link.FORWARD)
    return True


def late_groups(drill: "Drill", dice: random.Random) -> bool:
    """What the active sends to the database comes late, by more than a takeover takes."""
    host = drill.active()
    host.link(Link.FORWARD, delay_s=dice.uniform(0.5, 4))
    pause(dice.uniform(0.5, 3))
    host.link(Link.FORWARD)
    return True


def kill_all(drill: "Drill", dice: random.Random) -> bool:
    """SIGKILL to both servers and the database at once; then all come back."""
    for host in drill.hosts:
        host.kill()
    drill.cluster.kill()
    drill.cluster.start()
    moment = now()
    for host in drill.hosts:
        host.start()
    drill.measure("all killed at once", moment)
    return True


FAULTS: list[Fault] = [
    kill_active,
    kill_standby,
    stop_active,
    stop_standby,
    restart_active,
    handover,
    end_backends,
    cancel_commits,
    crash_database,
    fail_over_database,
    freeze_database,
    swallow,
    cut,
    lose_an_answer,
    late_groups,
    kill_all,
]


class Faults:
    """Chooses faults and counts those that happened. `names`: only these."""

    def __init__(self, seed: int, names: list[str]) -> None:
        self._dice = random.Random(seed)
        unknown = set(names) - {fault.__name__ for fault in FAULTS}
        assert not unknown, f"no such fault: {sorted(unknown)}"
        self._kinds = [fault for fault in FAULTS if not names or fault.__name__ in names]
        self._next: list[Fault] = []
        self.happened: Counter[str] = Counter()

    def one(self, drill: "Drill") -> str:
        """Have a fault happen; returns its name."""
        while True:
            if not self._next:
                self._next = self._dice.sample(self._kinds, len(self._kinds))
            fault = self._next.pop()
            try:
                if fault(drill, self._dice):
                    self.happened[fault.__name__] += 1
                    return fault.__name__
            except psycopg.OperationalError as error:
                raise AssertionError(f"{fault.__name__} could not be done") from error
