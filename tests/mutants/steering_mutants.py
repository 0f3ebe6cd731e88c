"""Mutants of how jobs are steered: control, uniqueness, limits, priorities, results, time limits.

The worlds of `tests.simulation.steering` have to find each.
"""

from tests.mutants.mutants import LEASES, SERVER, WORKER, Mutant

_LIMITS = SERVER + "limits/kind_limits.py"
_CONTROL = SERVER + "jobs/control_requests.py"
_RECORDS = SERVER + "records/"
_NAMED = SERVER + "named_leases/"

STEERING_MUTANTS = [
    Mutant(
        "a cancel that a retry forgets",
        LEASES + "lease_ends.py",
        "        if is_cancelled:\n"
        "            self._end_cancelled(job, attempts, self._reason(job))\n"
        "            return\n",
        "",
    ),
    Mutant(
        "a cancel of a running job that a restart forgets",
        LEASES + "lease_ends.py",
        "        self._write(job, JobState.CANCELLING, job.attempts, self._now_ms, reason)\n",
        "",
    ),
    Mutant(
        "a cancel of a job that waits is not written",
        LEASES + "lease_ends.py",
        "        self._end_cancelled(job, attempts, reason)\n",
        "        self._effects.append(partial(self._forget, job, CANCELLED))\n",
    ),
    Mutant(
        "an id forgotten a second early",
        _RECORDS + "clients.py",
        "            self.until_ms = ended_ms + unique_ms\n",
        "            self.until_ms = ended_ms + max(1, unique_ms - 1000)\n",
    ),
    Mutant(
        "an id remembered a minute too long",
        _RECORDS + "clients.py",
        "            self.until_ms = ended_ms + unique_ms\n",
        "            self.until_ms = ended_ms + unique_ms + 60_000\n",
    ),
    Mutant(
        "a limit that counts a dead worker",
        LEASES + "job_leases.py",
        "        group = self._staffed.get(client)\n"
        "        worker = None if group is None else group.workers.pop(route, None)\n",
        "        group = self._staffed.get(client)\n"
        "        worker = None if group is None else group.workers.pop(route, None)\n"
        "        for kind in worker.held.values() if worker else ():\n"
        "            self.limits.count(kind, 1)\n",
    ),
    Mutant(
        "a limit of running jobs that is one too high",
        _LIMITS,
        "self.leased.get(kind, 0) >= limit.running",
        "self.leased.get(kind, 0) > limit.running",
    ),
    Mutant(
        "a rate that is twice as high",
        _LIMITS,
        "self._rate * (now_ms - self._at_ms) / 1000\n",
        "self._rate * (now_ms - self._at_ms) / 500\n",
    ),
    Mutant(
        "a pause that a restart forgets",
        SERVER + "recovery.py",
        "limits.put(limit, now_ms,",
        "limits.put(limit._replace(paused=0), now_ms,",
    ),
    Mutant(
        "limits that a restart forgets",
        SERVER + "recovery.py",
        "limits.put(limit, now_ms,",
        "limits.put(limit._replace(running=0, per_second=0.0), now_ms,",
    ),
    Mutant(
        "a pause that stops nothing",
        _LIMITS,
        "        if limit.paused:\n            return PAUSED\n",
        "",
    ),
    Mutant(
        "a low priority that comes first",
        LEASES + "ready_jobs.py",
        "sorted(self._levels.items(), reverse=True)",
        "sorted(self._levels.items())",
    ),
    Mutant(
        "a result of another attempt",
        LEASES + "job_leases.py",
        "        if job is None or job.holder is None or job.token != token:\n",
        "        if job is None or job.holder is None:\n",
    ),
    Mutant(
        "a result that is not kept",
        LEASES + "lease_ends.py",
        "                self._changes.results += (job.record.seq, bytearray(end.result))\n",
        "                pass\n",
    ),
    Mutant(
        "a time limit that leaves the lease",
        WORKER + "worker_loop.py",
        "        self._report(held, TimeLimit(text))\n        self._check_lost(",
        "        self._check_lost(",
    ),
    Mutant(
        "a time limit that does not count",
        WORKER + "worker_loop.py",
        "            if held.ends_at is not None and held.ends_at <= now:\n",
        "            if held.ends_at is not None and held.ends_at <= now - 500:\n",
    ),
    Mutant(
        "a job that is begun long after its time to begin",
        LEASES + "lease_ends.py",
        "        self._not_begun = self._leases.times.take_not_begun(self._now_ms)\n",
        "        self._not_begun = []\n",
    ),
    Mutant(
        "a job that is moved to a later time begins at once",
        LEASES + "job_leases.py",
        "        if at_ms > now_ms:\n            self._wait_until(job, at_ms)\n",
        "        if at_ms > now_ms + 10**9:\n            self._wait_until(job, at_ms)\n",
    ),
    Mutant(
        "a move that is counted from nothing",
        _CONTROL,
        "        return now_ms + delay_ms\n",
        "        return now_ms + delay_ms // 2\n",
    ),
    Mutant(
        "a named lease that is given away while it lasts",
        _NAMED + "named_leases.py",
        "lease.held.until_ms + grace_ms <= now_ms:",
        "lease.held.until_ms - 2000 <= now_ms:",
    ),
    Mutant(
        "a named lease that is kept, and lasts no longer",
        _NAMED + "named_leases.py",
        "        lease.held = lease.held._replace(until_ms=now_ms + keep_ms)\n",
        "",
    ),
    Mutant(
        "named leases that a restart forgets",
        _NAMED + "named_leases.py",
        "                changes.named_leases += (name, *now)\n",
        "                pass\n",
    ),
    Mutant(
        "tokens of named leases that begin anew after a restart",
        _NAMED + "named_leases.py",
        "        self._last_token = epoch << COUNT_BITS\n",
        "        self._last_token = 0\n",
    ),
    Mutant(
        "a named lease that goes to the program which came last",
        _NAMED + "named_lease.py",
        "        for holder, waiter in self.waiters.items():\n",
        "        for holder, waiter in reversed(self.waiters.items()):\n",
    ),
    Mutant(
        "a cancellation of many that leaves out some",
        _CONTROL,
        "            if entry is not None and entry.job is job:\n",
        "            if entry is not None and entry.job is job and job.priority <= 0:\n",
    ),
]
