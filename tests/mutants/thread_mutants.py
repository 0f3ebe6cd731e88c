"""Mutants of what one process's threads share: timer, purgatory and the bus between them.

The worlds of `tests.simulation.inprocess` have to find each.
"""

from tests.mutants.mutants import Mutant

CORE = "purgatory/core/"
OPERATIONS = CORE + "operations/"
BUS = "purgatory/bus/"
TIMER = "timingwheel/"

THREAD_MUTANTS = [
    Mutant(
        "an earlier deadline wakes no thread that sleeps",
        TIMER + "wheel.py",
        "            if self.offer(bucket):\n                self.wake_owed = True\n",
        "            self.offer(bucket)\n",
    ),
    Mutant(
        "a key completes an operation without its lock",
        OPERATIONS + "keyed.py",
        "                with self._op_lock:\n                    won = _try_end(self,",
        "                if True:\n                    won = _try_end(self,",
    ),
    Mutant(
        "an end does not look whether it is the first",
        OPERATIONS + "outcome_race.py",
        "    if operation._op_outcome is not None:\n        return False\n"
        "    operation._op_outcome =",
        "    operation._op_outcome =",
    ),
    Mutant(
        "a drain does not wait for the thread that adds",
        TIMER + "rwlock.py",
        "                self._writer = me\n            self._lock.acquire()\n",
        "                self._writer = me\n",
    ),
    Mutant(
        "a worker that sleeps is not woken",
        BUS + "worker_pool.py",
        "        if not (sys.is_finalizing() or self._pipe.flush()):\n",
        "        if not (sys.is_finalizing() or self._pipe.flush() or True):\n",
    ),
    Mutant(
        "a leader takes no further task",
        TIMER + "executors/slow_tasks.py",
        "        while job is not None:\n            run, bucket = job\n            run(bucket)\n"
        "            job = self._next_job(me, job)\n",
        "        if job is not None:\n            run, bucket = job\n            run(bucket)\n",
    ),
    Mutant(
        "a task that has ended is moved, too",
        TIMER + "timer_core.py",
        "        if task._tt_list is None:\n            return False\n",
        "",
    ),
    Mutant(
        "the watch lists change without their lock",
        CORE + "watch_lists.py",
        "        with self._lock:\n            self.check_open()\n",
        "        if True:\n            self.check_open()\n",
    ),
    Mutant(
        "a posted command sends no signal",
        "mq/queues/mailbox.py",
        "            signaler.send()\n            self._signalled = sleep\n",
        "            self._signalled = sleep\n",
    ),
    # Faults that the worlds have found in the code as it was.
    Mutant(
        "two threads that take commands are one too many",
        BUS + "loop.py",
        "        try:\n            return self._batch.popleft()\n        except IndexError:",
        "        if self._batch:\n            return self._batch.popleft()\n        else:",
    ),
]
