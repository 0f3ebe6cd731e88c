"""Mutants: faults put into the service on purpose, each of which the simulation has to find.

`old` stands once in the file, and is replaced by `new`.
"""

from typing import NamedTuple

SERVER = "purgatory/service/server/"
STORE = "purgatory/service/store/"
CLIENT = "purgatory/service/client/"
WORKER = "purgatory/service/worker/"
LEASES = SERVER + "leases/"


class Mutant(NamedTuple):
    """One fault."""

    what: str
    file: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        "a commit is not synced",
        STORE + "sqlite/sqlite_store.py",
        "PRAGMA synchronous=FULL",
        "PRAGMA synchronous=OFF",
    ),
    Mutant(
        "an acknowledgement comes before the sync",
        STORE + "sqlite/sqlite_store.py",
        "PRAGMA synchronous=FULL",
        "PRAGMA synchronous=NORMAL",
    ),
    Mutant(
        "a server takes itself for ready while its disk hangs",
        SERVER + "commits.py",
        "        self._activity.commit_since_ns = self._activity.now_ns()\n"
        "        try:\n"
        "            self.write(changes)\n",
        "        try:\n            self.write(changes)\n",
    ),
    Mutant(
        "a migration loses extensions",
        STORE + "sqlite/migrations.py",
        "    4: JOBS,\n",
        '    4: JOBS + "DELETE FROM deadlines;\\n",\n',
    ),
    Mutant(
        "a migration is on disk before its version",
        STORE + "sqlite/migrations.py",
        '            connection.execute(f"PRAGMA user_version={target}")\n'
        '            connection.execute("COMMIT")\n',
        '            connection.execute("COMMIT")\n'
        '            connection.execute(f"PRAGMA user_version={target}")\n',
    ),
    Mutant(
        "a text that no server has written is not taken for damage",
        STORE + "sqlite/sqlite_errors.py",
        ' or (what != "write" and code in _UNREADABLE)',
        "",
    ),
    Mutant(
        "a failed commit is taken for one that succeeded",
        SERVER + "commits.py",
        "            self.retry_ms = self.look_ms\n            return error\n",
        "            self.retry_ms = self.look_ms\n            return None\n",
    ),
    Mutant(
        "an unknown end of a commit is answered by a refusal",
        SERVER + "store_loop.py",
        "            answer = None\n        else:\n"
        "            refusal = StoreFailed(str(error))\n"
        "            answer = self.handler.reject(transaction, refusal, self.requests.bytes)\n"
        "            self._answer(answer)\n",
        "        refusal = StoreFailed(str(error))\n"
        "        answer = self.handler.reject(transaction, refusal, self.requests.bytes)\n"
        "        self._answer(answer)\n",
    ),
    Mutant(
        "outcomes are forgotten at the start",
        SERVER + "operation_loading.py",
        "            self._state.retention.add(record)\n",
        "            pass\n",
    ),
    Mutant(
        "acknowledged outcomes are deleted at a clean end",
        SERVER + "transactions/maintenance.py",
        "        transaction.delete_outcomes()\n"
        "        self.remembering.move(transaction)\n"
        "        if self._state.journal_numbers.has_deletable:\n",
        "        from purgatory.service.server.records import retention\n"
        "        retention.RETAINED_OUTCOMES_MS = -1\n"
        "        transaction.delete_outcomes()\n"
        "        retention.RETAINED_OUTCOMES_MS = 600_000\n"
        "        if self._state.journal_numbers.has_deletable:\n",
    ),
    Mutant(
        "operations that wait are forgotten at the start, if they wait for several keys",
        SERVER + "operation_loading.py",
        "        state.watch(operation, keys)\n",
        "        if row.need == 1:\n            state.watch(operation, keys)\n",
    ),
    Mutant(
        "progress is forgotten at the start",
        SERVER + "operation_loading.py",
        "operation.values = self._progress.pop(row.number, None)",
        "operation.values = None",
    ),
    Mutant(
        "an operation expires a millisecond early",
        SERVER + "records/operation.py",
        "wait_ns = (deadline_ns // TICK_NS + 1) * TICK_NS - now_ns",
        "wait_ns = deadline_ns // TICK_NS * TICK_NS - 1_000_000 - now_ns",
    ),
    Mutant(
        "an extension is forgotten at the start",
        STORE + "table_store.py",
        'dict(self._read_keys("deadlines", numbers))',
        "dict.fromkeys(())",
    ),
    Mutant(
        "an extension is not written",
        SERVER + "transactions/transaction.py",
        "        self.changes.deadlines += (operation.number, operation.op_deadline_ms)\n",
        "",
    ),
    Mutant(
        "an extension shortens no wait",
        SERVER + "state.py",
        "        operation.op_deadline_ns = deadline_ns\n",
        "        deadline_ns = max(deadline_ns, operation.op_deadline_ns)\n"
        "        operation.op_deadline_ns = deadline_ns\n",
    ),
    Mutant(
        "an outcome tells the deadline from before its extension",
        SERVER + "state.py",
        "        operation.op_deadline_ms = deadline_ns // NS_PER_MS\n",
        "        operation.op_deadline_ms = "
        "max(deadline_ns // NS_PER_MS, operation.op_deadline_ms)\n",
    ),
    Mutant(
        "a rolled back transaction leaves its submissions",
        SERVER + "transactions/transaction.py",
        "            if operation.cancel():\n                lists.uncount(CANCELLED)\n",
        "            operation.client.count -= 1\n            continue\n",
    ),
    Mutant(
        "a rolled back transaction does not watch anew what had ended in it",
        SERVER + "transactions/transaction.py",
        "            if operation.number not in new:\n",
        "            if False:\n",
    ),
    Mutant(
        "a rolled back transaction leaves what was held in it",
        SERVER + "transactions/key_events.py",
        "        for key, event in self.held_before.items():\n",
        "        for key, event in ():\n",
    ),
    Mutant(
        "a rolled back transaction leaves progress",
        SERVER + "transactions/key_events.py",
        "            del operation.values[key]\n",
        "            pass\n",
    ),
    Mutant(
        "a rolled back transaction leaves replies",
        SERVER + "records/remembered_replies.py",
        "            self._take_back(key, seq)\n",
        "            pass\n",
    ),
    Mutant(
        "a request that is sent again is done again",
        SERVER + "request_handler.py",
        "        frame = replies.find(session, seq)\n",
        "        frame = None\n",
    ),
    Mutant(
        "replies are forgotten at the start",
        SERVER + "recovery.py",
        "    state.replies.load(store.replies())\n",
        "",
    ),
    Mutant(
        "an operation that is submitted again waits again",
        SERVER + "submit_requests.py",
        "if before is not None and _is_of(before, command.client, submission):",
        "if isinstance(before, OutcomeRecord):\n"
        "                del self._state.known[submission.op_id]\n"
        "                before = None\n"
        "            if before is not None and _is_of(before, command.client, submission):",
    ),
    Mutant(
        "a client that was away is another one",
        SERVER + "submit_requests.py",
        "if before is not None and _is_of(",
        "if before is not None and before.client is client and _is_of(",
    ),
    Mutant(
        "requests are sent again under new numbers",
        CLIENT + "session.py",
        "        return self._resending.begin()\n",
        "        groups = [group for _, group in self._unanswered.values()]\n"
        "        self._unanswered.clear()\n"
        "        for group in groups:\n"
        "            seq = next(self._seqs)\n"
        "            self._unanswered[seq] = (group.encode(seq), group)\n"
        "        return self._resending.begin()\n",
    ),
    Mutant(
        "requests are not sent again",
        CLIENT + "session.py",
        "        return self._resending.begin()\n",
        "        return []\n",
    ),
    Mutant(
        "a client acknowledges an outcome whose handler has raised",
        CLIENT + "outcomes.py",
        "            self._fail(delivery, error)\n            return False\n        del",
        "            del self._deliveries[_identity(outcome)]\n            return True\n"
        "        del",
    ),
    Mutant(
        "outcomes are not fetched on a new connection",
        SERVER + "network/reception.py",
        "        self._connections.fetch_outcomes(connection)\n",
        "        connection.streaming = True\n",
    ),
    Mutant(
        "an event counts for one more than its limit",
        SERVER + "records/operation.py",
        "        if self.units > 0:\n            self.units -= 1\n",
        "        if self.units > 1:\n            self.units -= 1\n",
    ),
    Mutant(
        "an event is held for twice its time",
        SERVER + "transactions/key_events.py",
        "until_ms = now_ms + completion.hold_ms\n",
        "until_ms = now_ms + 2 * completion.hold_ms\n",
    ),
    Mutant(
        "what is held is forgotten at the start",
        SERVER + "recovery.py",
        "        state.held.set(key, event)\n",
        "        pass\n",
    ),
    Mutant(
        "a key with many operations completes none of them",
        SERVER + "transactions/key_events.py",
        "        count = self._reach(key, context)\n        if context.reached:\n",
        "        if len(state.watchers_of(key)) > 2:\n            return 0\n"
        "        count = self._reach(key, context)\n        if context.reached:\n",
    ),
    Mutant(
        "a completion counts twice for an operation of several keys",
        SERVER + "records/operation.py",
        "        return len(self.values) >= self.need\n",
        "        return len(self.values) + 1 >= self.need\n",
    ),
    Mutant(
        "after the deadline keys count until the operation expires",
        SERVER + "records/operation.py",
        "        if value.at_ms > self.op_deadline_ms:\n            return False\n",
        "",
    ),
    Mutant(
        "numbers of outcomes are given twice after a start",
        SERVER + "recovery.py",
        "    state.last_number, state.last_seq = last.operations, last.outcomes\n",
        "    state.last_number, state.last_seq = last.operations, max(0, last.outcomes - 1)\n",
    ),
    Mutant(
        "a cancelled operation is said to have been cancelled, and goes on",
        SERVER + "transactions/transaction.py",
        "        return operation.cancel()\n",
        "        return True\n",
    ),
    Mutant(
        "the clock of a server jumps with the wall clock",
        SERVER + "clock.py",
        "        return self._sources.boot_ns() + self._offset_ns\n",
        "        return self._sources.wall_ns()\n",
    ),
    Mutant(
        "deadlines are not moved when the wall clock was set",
        SERVER + "recovery.py",
        "    if clock.shift_ms:\n",
        "    if False:\n",
    ),
    Mutant(
        "a connection that is full is forgotten",
        SERVER + "network/connections.py",
        "            self.blocked[connection] = None\n            return False\n",
        "            return False\n",
    ),
    Mutant(
        "a number has no bound",
        "purgatory/service/protocol.py",
        "Int64: TypeAlias = Annotated[int, Meta(le=MAX_INT)]\n",
        "Int64: TypeAlias = int\n",
    ),
    Mutant(
        "an error without a text ends a thread of a worker",
        "purgatory/service/errors.py",
        "    except BaseException as trouble:\n        ctrl_c",
        "    except OSError as trouble:\n        ctrl_c",
    ),
    # Jobs, and their leases to workers.
    Mutant(
        "a job that has failed is tried again at once",
        LEASES + "lease_ends.py",
        "        at_ms = self._now_ms + delay_ms if delay_ms else 0\n",
        "        at_ms = 0\n",
    ),
    Mutant(
        "a worker waits after each attempt for as long as after the first",
        WORKER + "worker_loop.py",
        "backoff_s(leased.attempt,",
        "backoff_s(1,",
    ),
    Mutant(
        "a lease is given twice",
        LEASES + "job_leases.py",
        "            worker = group.workers[route] = WorkerConnection(route)\n",
        "            worker = group.workers[route] = WorkerConnection(route)\n"
        "        for number in worker.held:\n"
        "            group.put(self.by_number[number])\n",
    ),
    Mutant(
        "a lease is ended under an old token",
        LEASES + "job_leases.py",
        "holder is None or job.token != token:\n            return None\n",
        "holder is None:\n            return None\n",
    ),
    Mutant(
        "a retry forgets its attempt",
        LEASES + "job_leases.py",
        "        job.attempts += counts\n",
        "",
    ),
    Mutant(
        "attempts are forgotten at the start",
        SERVER + "recovery.py",
        "due_job_of(record, known.attempts, known.at_ms)",
        "due_job_of(record, 0, known.at_ms)",
    ),
    Mutant(
        "a dead job is forgotten at the start",
        SERVER + "recovery.py",
        "        state.leases.add_dead(due_job_of(record, known.attempts))\n",
        "        pass\n",
    ),
    Mutant(
        "a job that was leased is forgotten at the start",
        SERVER + "recovery.py",
        "        state.leases.add(due_job_of(record))\n",
        "        pass\n",
    ),
    Mutant(
        "a job that is done is due again after a start",
        SERVER + "recovery.py",
        "    JobState.DONE: DONE,\n",
        "",
    ),
    Mutant(
        "tokens begin anew at the start",
        LEASES + "job_leases.py",
        "self._last_token = epoch << COUNT_BITS",
        "self._last_token = 0",
    ),
    Mutant(
        "a lease that was kept ends nevertheless",
        LEASES + "job_leases.py",
        "        job.until_ms = now_ms + job.holder.lease_ms\n",
        "",
    ),
    Mutant(
        "a job is never given up",
        LEASES + "lease_ends.py",
        "is_dead = attempts >= job.max_attempts",
        "is_dead = False",
    ),
    Mutant(
        "a job is given up an attempt early",
        LEASES + "lease_ends.py",
        "is_dead = attempts >= job.max_attempts",
        "is_dead = attempts + 1 >= job.max_attempts",
    ),
    Mutant(
        "a worker does not keep its leases",
        WORKER + "held_jobs.py",
        "            return found\n",
        "            return []\n",
    ),
    Mutant(
        "a worker begins jobs whose leases have ended",
        WORKER + "held_jobs.py",
        "if now - held.kept_at >= self._lease_s:",
        "if False:",
    ),
    Mutant(
        "a worker takes a lease for kept that it has asked for",
        WORKER + "held_jobs.py",
        "                held.asked_at = now\n",
        "                held.asked_at = held.kept_at = now\n",
    ),
    Mutant(
        "a worker does not know that its machine was suspended",
        WORKER + "worker_loop.py",
        "        return self._platform.boot_ns() / 1e9\n",
        "        return self._monotonic()\n",
    ),
    Mutant(
        "a worker says of a handler that has raised that it is done",
        WORKER + "worker_loop.py",
        "        end.how = How.FAILED\n",
        "",
    ),
    Mutant(
        "an end that was not written is not sent again",
        WORKER + "lease_returns.py",
        "            self._again.append((held, end))\n",
        "            pass\n",
    ),
    Mutant(
        "an end that is sent again is ended again",
        SERVER + "request_handler.py",
        "        if not session:\n",
        "        if not session or isinstance(request, Finish):\n",
    ),
    Mutant(
        "a row is in the journal twice after a start",
        SERVER + "journal/journal_start.py",
        "store.submissions(position.operations)",
        "store.submissions(position.operations - 1)",
    ),
    Mutant(
        "events that the journal has missed are not given to it again",
        SERVER + "journal/journal_start.py",
        "    for events in in_portions(store.queued_events(position.events), _CHUNK):\n",
        "    for events in ():\n",
    ),
    Mutant(
        "events are deleted before the journal has them",
        SERVER + "journal/journal_numbers.py",
        "        self._confirmed = (position.events, position.extensions, position.jobs)\n",
        "        self._confirmed = (self._events, self._extensions, self._jobs)\n",
    ),
    Mutant(
        "outcomes are deleted before the journal has them",
        SERVER + "records/retention.py",
        "            self._blocked = not self._is_journaled(record)\n",
        "            self._blocked = False\n",
    ),
    Mutant(
        "what was not written is in the journal",
        SERVER + "store_loop.py",
        "        transaction.roll_back()\n        if error.fatal",
        "        transaction.roll_back()\n        if self._sink is not None:\n"
        "            self._sink.write(operation_rows(transaction), [], [], [])\n"
        "        if error.fatal",
    ),
]
