"""Faults in what keeps two servers over one database apart; worlds of two servers find them.

Worlds cannot tell a notice that is ignored (their database has no standby that loses a group): the
tests of `Groups` and the drill's control do. A member that loads before it has the lease is found
by the tests of `Member` and by the drill: in worlds another loop runs the member's parts. And a
group that is sent again after a doubt does no harm, since the fence counts groups.
"""

from tests.mutants.mutants import SERVER, Mutant

CLUSTER = "purgatory/service/cluster/"
GROUPS = "purgatory/service/store/postgres/groups.py"
_FENCE = "WHERE epoch = $1::int8 AND commits = $2::int8 RETURNING 1"
_NO_FENCE = "WHERE $1::int8 + $2::int8 IS NOT NULL RETURNING 1"

CLUSTER_MUTANTS = [
    Mutant("no group is fenced", GROUPS, _FENCE, _NO_FENCE),
    Mutant(
        "the fence lets later epochs pass",
        GROUPS,
        _FENCE,
        "WHERE epoch >= $1::int8 RETURNING 1",
    ),
    Mutant(
        "the fence asks the count of groups alone",
        GROUPS,
        _FENCE,
        "WHERE commits = $2::int8 RETURNING 1",
    ),
    Mutant(
        "groups without new numbers are not fenced, as those that delete",
        GROUPS,
        "            self._fence,\n",
        "            self._fence if any(last) else self._fence.replace(\n"
        '                "WHERE epoch = $1::int8 AND commits = $2::int8",\n'
        '                "WHERE $1::int8 + $2::int8 IS NOT NULL",\n'
        "            ),\n",
    ),
    Mutant(
        "the epoch is asked for before the group, and not in it",
        GROUPS,
        "        fence = statement(\n            self._fence,\n",
        "        row = one_row(self._database.rows(self._look()))\n"
        "        if row is None or row[1] != self._lease.epoch:\n"
        "            raise self._lose(row)\n"
        "        fence = statement(\n"
        "            self._fence.replace(\n"
        '                "WHERE epoch = $1::int8 AND commits = $2::int8",\n'
        '                "WHERE $1::int8 + $2::int8 IS NOT NULL",\n'
        "            ),\n",
    ),
    Mutant(
        "a doubt is resolved by a read",
        GROUPS,
        "        commits = self._raise_epoch()\n",
        "        self._database.drop()\n"
        "        commits = int(self._database.rows(self._look())[0][2])\n",
    ),
    Mutant(
        "a group in doubt is taken for kept",
        GROUPS,
        "        if commits == self._commits + 1:\n            self._commits = commits\n",
        "        if commits >= self._commits:\n            self._commits = commits\n",
    ),
    Mutant(
        "a group in doubt is taken for refused",
        GROUPS,
        "        if commits == self._commits + 1:\n            self._commits = commits\n",
        "        self._commits = commits\n        if commits < 0:\n",
    ),
    Mutant(
        "a doubt is resolved although another server is the holder",
        GROUPS,
        "WHERE holder = $1::text AND epoch >= $2::int8 RETURNING epoch",
        "WHERE epoch >= $2::int8 RETURNING epoch",
    ),
    Mutant(
        "a lease counts from the answer to a beat",
        CLUSTER + "heartbeat.py",
        "            lease.renewed(sent_ns)\n",
        "            lease.renewed(lease.boot_ns())\n",
    ),
    Mutant(
        "a lease counts from the answer to a commit",
        GROUPS,
        "        self.is_replicated = session.rows(results[-2])[0][1]\n"
        "        self._lease.renewed(sent_ns)\n",
        "        self.is_replicated = session.rows(results[-2])[0][1]\n"
        "        self._lease.renewed(self._lease.boot_ns())\n",
    ),
    Mutant(
        "frames leave without a valid lease",
        SERVER + "network/connections.py",
        "if self._guard is not None and not self._guard():",
        "if self._guard is not None and False:",
    ),
    Mutant(
        "a lease is valid for longer than another server waits",
        CLUSTER + "store_lease.py",
        "takeover_after * (1 - MARGIN)",
        "takeover_after * (1 + MARGIN)",
    ),
    Mutant(
        "a standby takes over from a holder that lives",
        CLUSTER + "lease_watch.py",
        "        if self.last is None or not self.last.is_same(seen):\n",
        "        if self.last is None:\n",
    ),
    Mutant(
        "a standby waits for less time than a lease lasts",
        CLUSTER + "lease_watch.py",
        "self._patience_ns = int(takeover_after * _NS_PER_S)",
        "self._patience_ns = int(takeover_after * _NS_PER_S) // 3",
    ),
    Mutant(
        "a new holder has its own machine's clock",
        CLUSTER + "store_lease.py",
        "self.clock_offset_ns: int = clock_ms * NS_PER_MS - boot_ns()",
        "self.clock_offset_ns: int = clock_ms // 10_000_000 * 10_000_000 * NS_PER_MS - boot_ns()",
    ),
    Mutant(
        "a new holder goes on with the clock of its last look",
        CLUSTER + "takeover.py",
        "            taken.clock_ms,\n",
        "            seen.clock_ms,\n",
    ),
    Mutant(
        "a beat that is not this holder's is no loss",
        CLUSTER + "heartbeat.py",
        "        if seen is None or seen.holder != lease.holder:\n            lease.lose(TAKEN)\n",
        "        if seen is None or seen.holder != lease.holder:\n",
    ),
]
