"""Commits in doubt: a store whose sessions are ended at random says of each group what is true.

`python -m tests.drill.doubts --doubts 1000`. Every group that was said to be written has to be
there at the end, and none that was said to be refused.
"""

import argparse
import random
import sys
import threading
from typing import NamedTuple

from purgatory.errors import StoreError
from tests.postgres.cluster import PostgresCluster, remove_template
from tests.postgres.proxy import Link, Proxy
from tests.testing.held_lease import open_store

#: The longest time between two troubles, seconds.
_LONGEST_S = 0.004
#: That share of the trouble is an ended session, the rest a lost answer.
_ENDS = 0.3


class Doubts(NamedTuple):
    """What came of the groups: `wrong` are those of which the store has said what is not true."""

    groups: int
    in_doubt: int
    there: int
    refused: int
    wrong: list[str]


class _Trouble:
    """Ends the sessions that write, and loses answers of commits, in a thread."""

    def __init__(self, cluster: PostgresCluster, proxy: Proxy, dice: random.Random) -> None:
        self._cluster, self._proxy, self._dice = cluster, proxy, dice
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sql = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name LIKE 'purgatory:%' AND state <> 'idle'"
        )
        with self._cluster.primary.connect() as connection:
            while not self._stop.wait(self._dice.uniform(0, _LONGEST_S)):
                if self._dice.random() < _ENDS:
                    connection.execute(sql)
                else:
                    self._lose_an_answer()

    def _lose_an_answer(self) -> None:
        self._proxy.cut_at(b"COMMIT", Link.SWALLOW_ANSWERS)
        self._stop.wait(self._dice.uniform(0, 2 * _LONGEST_S))
        self._proxy.set(Link.FORWARD)  # resets what has lost something

    def stop(self) -> None:
        """End the trouble."""
        self._stop.set()
        self._thread.join()


def make_doubts(cluster: PostgresCluster, wanted: int, seed: int) -> Doubts:
    """Write groups until so many were in doubt, and compare."""
    said: dict[str, bool] = {}
    there = 0
    with Proxy(cluster.primary.port) as proxy:
        store = open_store(cluster.url_of(ports=[proxy.port]))
        trouble = _Trouble(cluster, proxy, random.Random(seed))
        try:
            while len(store.lease.raises) < wanted:
                key, before = f"group {len(said)}", len(store.lease.raises)
                said[key] = _write(store, key)
                there += said[key] and len(store.lease.raises) > before
        finally:
            trouble.stop()
        found = store.metadata()
        store.close()
    wrong = [key for key, is_there in said.items() if (key in found) != is_there]
    refused = sum(not is_there for is_there in said.values())
    return Doubts(len(said), len(store.lease.raises), there, refused, wrong)


def _write(store, key: str) -> bool:
    try:
        store.set_metadata({key: 1})
    except StoreError as error:
        if error.fatal:
            raise
        return False
    return True


def main() -> int:
    """Make doubts, and say what came of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill.doubts", description=__doc__)
    parser.add_argument("--doubts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with PostgresCluster() as cluster:
        found = make_doubts(cluster, arguments.doubts, arguments.seed)
    remove_template()
    sys.stdout.write(f"{found}\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
