"""Mutants that leave each outcome possible, and make it another one than the right one.

The model beside the server has to find each in the first `WORLDS` worlds.
"""

from tests.mutants.mutants import LEASES, SERVER, Mutant

#: In so many worlds each has to be found.
WORLDS = 50

EXACT_MUTANTS = [
    Mutant(
        "the first key is said to have completed an operation",
        SERVER + "records/operation.py",
        "        self.by_key = key\n",
        "        self.by_key = key if self.values is None else next(iter(self.values))\n",
    ),
    Mutant(
        "a limited event reaches those that have waited least",
        SERVER + "state.py",
        "found.sort(key=lambda one: one.number)",
        "found.sort(key=lambda one: one.number, reverse=True)",
    ),
    Mutant(
        "an event is held for an instant too short",
        SERVER + "records/held_keys.py",
        "now_ms <= event.until_ms else",
        "now_ms < event.until_ms else",
    ),
    Mutant(
        "an event is held for an instant too long",
        SERVER + "records/held_keys.py",
        "now_ms <= event.until_ms else",
        "now_ms <= event.until_ms + 1 else",
    ),
    Mutant(
        "a held event outlives a later one that is not held",
        SERVER + "transactions/key_events.py",
        "        self._hold(key, event)\n        if hold_ms or",
        "        if event is not None:\n            self._hold(key, event)\n        if hold_ms or",
    ),
    Mutant(
        "a lease that is kept lasts longer than its client knows",
        LEASES + "job_leases.py",
        "        job.until_ms = now_ms + job.holder.lease_ms\n",
        "        job.until_ms += job.holder.lease_ms\n",
    ),
    Mutant(
        "a lease that is kept lasts shorter than its client knows",
        LEASES + "job_leases.py",
        "        job.until_ms = now_ms + job.holder.lease_ms\n",
        "        job.until_ms = now_ms + job.holder.lease_ms // 2\n",
    ),
]
