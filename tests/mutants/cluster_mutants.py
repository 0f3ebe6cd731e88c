"""Faults in what keeps two servers over one database apart; worlds of two servers find them.

Others are for tests with a real PostgreSQL. A notice that is ignored: the tests of `Groups`.
Loading before the lease: the tests of `Member`. A group that is sent again after a doubt does no
harm, since the fence counts groups.
"""

from tests.mutants.mutants import SERVER, Mutant

CLUSTER = "purgatory/service/cluster/"
GROUPS = "purgatory/service/store/postgres/groups.py"

FENCE = "WHERE epoch = $1::int8 AND commits = $2::int8"
NO_FENCE = "WHERE $1::int8 + $2::int8 > 0"

CLUSTER_MUTANTS = [
    Mutant("a group is not fenced", GROUPS, FENCE, NO_FENCE),
    Mutant("a fence lets older epochs through", GROUPS, FENCE, FENCE.replace("= $", ">= $")),
    Mutant(
        "a fence is a read before the group",
        GROUPS,
        "        fence = statement(\n            self._fence,\n",
        "        row = one_row(self._database.rows(self._look()))\n"
        "        if row != (self._lease.holder, self._lease.epoch, self._commits):\n"
        "            raise self._lose(row)\n"
        "        fence = statement(\n"
        f"            self._fence.replace({FENCE!r}, {NO_FENCE!r}),\n",
    ),
    Mutant(
        "what gives no new number is not fenced: extensions, held events, deletes",
        GROUPS,
        "            self._fence,\n",
        "            self._fence if any(last) else "
        f"self._fence.replace({FENCE!r}, {NO_FENCE!r}),\n",
    ),
    Mutant(
        "a lease counts from the answer to its renewal",
        CLUSTER + "heartbeat.py",
        "            lease.renewed(sent_ns)\n",
        "            lease.renewed(lease.boot_ns())\n",
    ),
    Mutant(
        "frames leave without a valid lease",
        SERVER + "network/connections.py",
        "if self._guard is not None and not self._guard():",
        "if self._guard is not None and False:",
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
        "a standby takes over from a holder that lives",
        CLUSTER + "lease_watch.py",
        "        if self.last is None or not self.last.is_same(seen):\n",
        "        if self.last is None:\n",
    ),
    Mutant(
        "a standby waits for less time than a lease lasts",
        CLUSTER + "lease_watch.py",
        "self._patience_ns = int(takeover_after * NS_PER_S)",
        "self._patience_ns = int(takeover_after * NS_PER_S) // 3",
    ),
    Mutant(
        "a new holder has its own machine's clock",
        CLUSTER + "store_lease.py",
        "self.clock_offset_ns: int = taken.clock_ms * NS_PER_MS - boot_ns()",
        "self.clock_offset_ns: int = taken.clock_ms // 10**7 * 10**7 * NS_PER_MS - boot_ns()",
    ),
    Mutant(
        "a write that comes late sets the clock back",
        CLUSTER + "store_lease.py",
        "ClockReading(now_ms, now_ms + self._database_ahead_ms)",
        "ClockReading(now_ms, now_ms + 10**9)",
    ),
]
