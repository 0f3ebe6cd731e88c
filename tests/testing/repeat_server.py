"""A `StepServer` with repeats, which sleeps as a server does, and notes when jobs are leased."""

from datetime import UTC, datetime
from itertools import count

from purgatory.service.encoding import encode
from purgatory.service.job_messages import ChangeRepeat, ReadRepeats, Repeat, SetRepeat
from purgatory.service.protocol import NOTHING, Raw
from tests.testing.step_server import START_MS, ManualTime, StepServer

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class RepeatServer(StepServer):
    """Begins at `start`, an ISO time in UTC; `leased_at` has (milliseconds since then, job id)."""

    def __init__(self, path, start=None, **others):
        time = ManualTime()
        if start is not None:
            time.ms = at(start)
        self.start_ms = time.ms
        self.begun = []  # jobs that were leased and have not ended
        self.leased_at = []
        super().__init__(path, time=time, **others)

    def repeat(self, name="r", *, client="c", payload=None, **settings):
        """Declare a repeat; returns its state."""
        packed = NOTHING if payload is None else encode(payload)
        repeat = Repeat(name, payload=Raw(packed), **settings)
        answer = self.ask(SetRepeat, repeat, client=client)
        return getattr(answer, "state", answer)

    def change(self, what, name="r", *, client="c", **others):
        """Pause, resume, delete or run a repeat; returns the answer."""
        answer = self.ask(ChangeRepeat, name, what, client=client, **others)
        self.note_leased()
        return answer

    def state_of(self, name="r", client="c"):
        """Return what the server says of a repeat; None if there is none."""
        found = self.ask(ReadRepeats, None, 100, client, name, client=client).repeats
        return found[0] if found else None

    def note_leased(self):
        """Note what the last transaction has leased."""
        for job in self.leased:
            self.begun.append(job)
            self.leased_at.append((self.time.ms - self.start_ms, job.op_id))

    def sleep(self, ms, *, finishes=False):
        """Let time pass as a server does: it wakes when it says so. Leased jobs may end at once."""
        end = self.time.ms + ms
        for steps in count():
            assert steps < 100_000, "the server does not sleep"
            self.step(once=True)
            self.note_leased()
            if finishes and self.begun:
                self.finish_all()
                continue
            sleep_us = -(-self.store_loop.max_sleep() * 1_000_000 // 250) * 250
            now_us = self.time.ms * 1000 + self.time.us
            if now_us + sleep_us > end * 1000:
                break
            self.time.ms, self.time.us = divmod(int(now_us + sleep_us), 1000)
        self.time.ms, self.time.us = end, 0

    def finish_all(self):
        """End all jobs that were leased."""
        jobs, self.begun = self.begun, []
        if jobs:
            self.finish(*jobs)
            self.note_leased()

    def names(self):
        """Return the ids of all jobs that were leased, without the names of their repeats."""
        return [job_id.partition("@")[2] for _, job_id in self.leased_at]


def at(text):
    """Return Unix milliseconds of an ISO time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def since_start(*values):
    """Return moments after START_MS."""
    return [START_MS + value for value in values]
