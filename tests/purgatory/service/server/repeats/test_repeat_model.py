"""A repeat at a server, against a naive model: pauses, restarts, outages, overlaps, missed ones."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.testing.repeat_server import DAY, SECOND, RepeatServer
from tests.testing.step_server import START_MS

EVERY = 10 * SECOND
#: No action comes at the time of a run.
OFFSET = SECOND // 2


class Model:
    """Deals with each time when it comes; `runs` are the times that had a job."""

    def __init__(self, overlap, missed):
        self.skips = overlap == "skip"
        self.missed = missed
        self.now = 0
        self.following = EVERY
        self.is_paused = False
        self.passed = []  # times that nobody looked at
        self.backlog = []  # missed times that wait for the run before
        self.during_backlog = []  # times that came meanwhile
        self.is_running = False
        self.runs = []
        self.skipped = 0

    def run_or_skip(self, at):
        """Deal with a time that is not missed."""
        if self.skips and (self.is_running or self.backlog):
            self.skipped += 1
            if self.backlog:
                self.during_backlog.append(at)
        else:
            self.runs.append(at)
            self.is_running = True

    def pass_time(self, ms, *, looks=True):
        """Let time pass; `looks`: the server runs."""
        self.now += ms
        while self.following <= self.now:
            if self.is_paused or not looks:
                self.passed.append(self.following)
            else:
                self.run_or_skip(self.following)
            self.following += EVERY

    def catch_up(self):
        """Deal with the times that nobody looked at, and with those that wait for that."""
        if self.is_paused:
            return
        if self.backlog:  # what came meanwhile was not looked at to the end
            self.skipped -= len(self.during_backlog)
        late = sorted(self.backlog + self.during_backlog * bool(self.backlog) + self.passed)
        self.backlog, self.during_backlog, self.passed = [], [], []
        if self.missed == "none" or not late:
            return
        if self.missed == "one":
            self.run_or_skip(late[0])
        elif self.skips:
            self.backlog = late
            self.go_on()
        else:
            for at in late:
                self.run_or_skip(at)

    def go_on(self):
        """Run the next one that waits, if none is running."""
        if self.backlog and not self.is_running:
            self.runs.append(self.backlog.pop(0))
            self.is_running = True
            if not self.backlog:
                self.during_backlog = []

    def finish(self):
        """End what is running."""
        self.is_running = False
        if not self.is_paused:
            self.go_on()

    def run_now(self):
        """Run at once, if allowed."""
        if self.skips and self.is_running:
            self.skipped += 1
            return False
        self.runs.append(self.now)
        self.is_running = True
        return True


class Pair:
    """A server and a model that do the same."""

    def __init__(self, path, overlap, missed):
        self.server = RepeatServer(path)
        self.work()
        self.server.repeat(every_ms=EVERY, overlap=overlap, missed=missed)
        self.model = Model(overlap, missed)
        self.pass_time(OFFSET)

    def work(self):
        """Have all jobs taken by a worker."""
        self.server.begun.clear()
        self.server.work(room=1000, lease_ms=DAY)
        self.server.note_leased()

    def pass_time(self, ms):
        """Let time pass while the server runs."""
        self.server.sleep(ms)
        self.model.pass_time(ms)

    def sleep(self, seconds):
        """Let seconds pass."""
        self.pass_time(seconds * SECOND)

    def outage(self, seconds):
        """Have no server for a while; or only a restart."""
        self.server.store.close()
        self.server.time.ms += seconds * SECOND
        self.model.pass_time(seconds * SECOND, looks=False)
        self.server.open()
        self.work()
        self.model.catch_up()
        self.pass_time(SECOND)

    def finish(self, _):
        """End what is running."""
        if self.model.is_running:
            self.server.finish_all()
            self.model.finish()
        self.pass_time(SECOND)

    def pause(self, _):
        """Pause."""
        self.server.change("pause")
        self.model.is_paused = True

    def resume(self, _):
        """Resume."""
        self.server.change("resume")
        if self.model.is_paused:
            self.model.is_paused = False
            self.model.catch_up()
        self.pass_time(SECOND)

    def rest(self, seconds):
        """Be paused for a while."""
        self.pause(0)
        self.sleep(seconds)
        self.resume(0)

    def declare(self, _):
        """Declare the same again."""
        repeat = self.server.state_of().repeat
        self.server.repeat(
            every_ms=EVERY, overlap=repeat.overlap, missed=repeat.missed, kind="", payload=1
        )

    def run(self, _):
        """Run now."""
        assert self.server.change("run").done == self.model.run_now()
        self.pass_time(SECOND)

    def check(self):
        """Compare what ran, in order, and what was skipped."""
        model, state = self.model, self.server.state_of()
        seen = list(dict.fromkeys(job_id for _, job_id in self.server.leased_at))
        assert seen == [run_id(at) for at in model.runs]
        assert state.paused == model.is_paused
        if not model.backlog and not model.passed:
            assert state.skipped == model.skipped
            expected = None if model.is_paused else START_MS + model.following
            assert state.next_ms == expected


def run_id(ms):
    """Return the id of the run of a time."""
    minutes, rest = divmod(ms + 40 * SECOND, 60 * SECOND)
    hours, minutes = divmod(minutes + 46, 60)
    seconds, ms = divmod(rest, SECOND)
    fraction = f".{ms:03}" if ms else ""
    return f"r@2001-09-09T{hours + 1:02}:{minutes:02}:{seconds:02}{fraction}Z"


ACTION = st.one_of(
    st.tuples(st.sampled_from(["sleep", "outage", "rest"]), st.integers(0, 100)),
    st.tuples(st.sampled_from(["finish", "pause", "resume", "declare", "run"]), st.just(0)),
)


@settings(max_examples=80)
@given(
    st.sampled_from(["skip", "allow"]),
    st.sampled_from(["one", "none", "all"]),
    st.lists(ACTION, max_size=14),
)
def test_a_server_does_what_the_model_does(overlap, missed, actions):
    """Each time has one run, or none, as the settings say; after each action."""
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(Path(directory) / "a.db", overlap, missed)
        try:
            for name, seconds in actions:
                getattr(pair, name)(seconds)
                pair.check()
        finally:
            pair.server.store.close()
