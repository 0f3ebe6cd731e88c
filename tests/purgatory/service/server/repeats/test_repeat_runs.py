"""Runs of repeats, at a server whose clock the test moves."""

from collections import Counter

import pytest

from purgatory.service.client.repeats.repeat_handle import RepeatHandle
from purgatory.service.encoding import unpack
from purgatory.service.job_messages import ChangeRepeat, Repeat, SetRepeat
from purgatory.service.protocol import MADE_UP, NOTHING, How, Raw
from purgatory.service.server.repeats import repeat_runs
from tests.testing.repeat_server import DAY, HOUR, MINUTE, SECOND, at
from tests.testing.step_server import START_MS, RecordingSink, job


class SlowSink(RecordingSink):
    """A journal whose start takes `ms`."""

    def __init__(self, time, ms):
        super().__init__()
        self._time, self._ms = time, ms

    def start(self, source, confirm):
        """See `JournalSink`."""
        self._time.ms += self._ms
        return super().start(source, confirm)


def lateness(server):
    """How many milliseconds after a whole second each run was leased."""
    return {ms % SECOND for ms, _ in server.leased_at}


class TestIntervals:
    def test_the_first_run_is_one_interval_from_now(self, server):
        """Then one each interval, within a tick or two of it."""
        state = server.repeat(every_ms=10 * SECOND, kind="", payload={"a": 1})
        assert state.next_ms == server.time.ms + 10 * SECOND
        server.sleep(9_999, finishes=True)
        assert server.leased_at == []
        server.sleep(25 * SECOND, finishes=True)
        assert [ms // SECOND for ms, _ in server.leased_at] == [10, 20, 30]
        assert lateness(server) <= {0, 1}
        assert server.state_of().last_ms == START_MS + 30 * SECOND

    def test_a_run_is_submitted_in_its_millisecond(self, server):
        """Neither before nor after; a server that sleeps as long as it says wakes once for it."""
        server.repeat(every_ms=SECOND, kind="none")
        for ms, submitted in ((SECOND - 1, 0), (1, 1)):
            server.pass_time(ms)
            assert len(server.state.known) == submitted

    def test_a_run_is_an_ordinary_job(self, server):
        """With the kind, the payload, the name as a tag, and an id that tells name and time."""
        server.work("mail")
        server.repeat("nightly", every_ms=1500, kind="mail", payload={"to": "ada"})
        server.sleep(1501)
        [leased] = server.begun
        assert leased.op_id == "nightly@2001-09-09T01:46:41.500Z"
        assert (leased.kind, leased.attempt, unpack(leased.payload)) == ("mail", 1, {"to": "ada"})
        assert server.state.known[leased.op_id].job.tags == ("nightly",)
        assert server.finish(leased) == [True]

    def test_jobs_of_the_clients_name(self, server):
        """Workers of another name get none, also if its repeat has the same name."""
        server.repeat(every_ms=SECOND)
        server.repeat(every_ms=SECOND, client="other")
        server.sleep(SECOND + 1)
        assert [one.op_id for one in server.begun] == ["r@2001-09-09T01:46:41Z"]
        server.work(client="other", route=b"o")
        server.note_leased()
        assert server.begun[-1].op_id == "r@2001-09-09T01:46:41Z#2"

    def test_the_rhythm_is_kept_when_it_is_declared_again(self, server):
        """Also by a server that was started anew; another interval begins anew."""
        server.repeat(every_ms=10 * SECOND, kind="")
        server.sleep(7 * SECOND)
        assert server.repeat(every_ms=10 * SECOND, overlap="allow").next_ms == START_MS + 10_000
        server.crash()
        server.sleep(2 * SECOND)
        assert server.repeat(every_ms=10 * SECOND, missed="all").next_ms == START_MS + 10_000
        assert server.repeat(every_ms=4 * SECOND).next_ms == START_MS + 13_000
        assert server.repeat(every_ms=10 * SECOND).next_ms == START_MS + 19_000

    def test_jitter(self, server):
        """Each run is later by another part of it, never earlier; the rhythm stays."""
        server.repeat(every_ms=10 * SECOND, jitter_ms=5 * SECOND)
        server.sleep(200 * SECOND, finishes=True)
        late = [ms - 10_000 * n for n, (ms, _) in enumerate(server.leased_at, 1)]
        assert len(late) >= 19
        assert all(0 <= ms <= 5_001 for ms in late)
        assert len(set(late)) > 10
        assert server.leased_at[0][1] == "r@2001-09-09T01:46:50Z"
        assert (server.state_of().last_ms - START_MS) % (10 * SECOND) == 0  # without jitter
        assert "The time of the last job, without its jitter" in RepeatHandle.last.__doc__

    def test_the_jitter_of_a_run_is_the_same_after_a_restart(self, server):
        """So a restart neither makes a run earlier nor another one of the same time."""
        due_ms = server.repeat(every_ms=10 * SECOND, jitter_ms=10 * SECOND).next_ms
        server.sleep(5 * SECOND)
        server.crash()
        assert server.state_of().next_ms == due_ms


class TestCalendar:
    def test_a_gap_and_a_fold(self, make_server):
        """Half past two in Berlin: at three on the day of the gap, once on the day of the fold."""
        server = make_server("2026-03-28T00:00")
        server.repeat(cron="30 2 * * *", tz="Europe/Berlin")
        server.sleep(3 * DAY, finishes=True)
        assert server.names() == [
            "2026-03-28T01:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:30:00Z",
        ]
        server = make_server("2026-10-24T12:00")
        server.repeat(cron="30 2 * * *", tz="Europe/Berlin")
        server.sleep(2 * DAY, finishes=True)
        assert server.names() == ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]

    def test_quarters_of_an_hour_in_a_fold(self, make_server):
        """They go by real time: eight in the two hours, on time."""
        server = make_server("2026-10-24T23:59:30")
        server.repeat(cron="*/15 * * * *", tz="Europe/Berlin")
        server.sleep(2 * HOUR, finishes=True)
        assert [ms // MINUTE for ms, _ in server.leased_at] == [n * 15 for n in range(8)]
        assert lateness(server) <= {0, 1}

    def test_a_restart_in_the_fold(self, make_server):
        """The time that comes twice has run: it does not run again."""
        server = make_server("2026-10-25T00:29:59")
        server.repeat(cron="30 2 * * *", tz="Europe/Berlin")
        server.sleep(10 * SECOND, finishes=True)
        for _ in range(8):
            server.crash()
            server.work()
            server.sleep(15 * MINUTE, finishes=True)
        assert server.names() == ["2026-10-25T00:30:00Z"]

    def test_the_rhythm_is_kept(self, server):
        """Unless the expression or the zone changes."""
        first = server.repeat(cron="0 12 * * *").next_ms
        server.sleep(HOUR)
        assert server.repeat(cron="0 12 * * *", missed="none").next_ms == first
        assert server.repeat(cron="0 12 * * *", tz="Asia/Tokyo").next_ms == first - 9 * HOUR
        assert server.repeat(cron="30 12 * * *").next_ms == first + 30 * MINUTE

    def test_the_wall_clock_is_set_ahead(self, make_server):
        """The service's clock counts; at the next start the times between are missed."""
        server = make_server("2026-11-26T12:00")
        server.repeat(cron="0 * * * *", missed="all", overlap="allow")
        server.time.wall_ms = 3 * HOUR
        server.sleep(HOUR + SECOND, finishes=True)
        assert server.names() == ["2026-11-26T13:00:00Z"]
        server.crash()
        server.work()
        server.sleep(SECOND, finishes=True)
        assert server.names()[1:] == [f"2026-11-26T{hour}:00:00Z" for hour in (14, 15, 16)]

    def test_the_wall_clock_is_set_back(self, make_server):
        """By an hour: the time that comes again does not run again."""
        server = make_server("2026-11-26T12:00")
        server.repeat(cron="0 13 * * *")
        server.sleep(HOUR + SECOND, finishes=True)
        server.time.wall_ms = -HOUR
        server.crash()
        server.work()
        server.sleep(2 * HOUR, finishes=True)
        assert server.names() == ["2026-11-26T13:00:00Z"]

    def test_a_clock_that_was_far_ahead_does_not_stop_a_repeat(self, make_server):
        """Set back by a year: times count from then on."""
        server = make_server("2027-11-26T12:00")
        server.repeat(cron="0 13 * * *")
        server.sleep(2 * HOUR, finishes=True)
        server.time.wall_ms = -365 * DAY
        server.crash()
        assert server.state_of().next_ms == at("2026-11-27T13:00")

    def test_an_interval_is_as_long_after_the_clock_was_set(self, make_server):
        """As the deadlines of operations."""
        server = make_server("2026-11-26T12:00")
        server.repeat(every_ms=HOUR)
        server.sleep(20 * MINUTE)
        server.time.wall_ms = 5 * DAY
        server.crash()
        assert server.state_of().next_ms - at("2026-12-01T12:20") == 40 * MINUTE


class TestMissed:
    @pytest.mark.parametrize(
        ("missed", "found"), [("none", []), ("one", [1]), ("all", list(range(1, 11)))]
    )
    @pytest.mark.parametrize("overlap", ["skip", "allow"])
    @pytest.mark.parametrize("how", ["down", "paused"])
    def test_ten_times(self, server, missed, found, overlap, how):
        """None, one or all run; all of them in turn, each when the one before has ended."""
        server.repeat(every_ms=MINUTE, missed=missed, overlap=overlap)
        if how == "paused":
            server.change("pause")
            server.sleep(10 * MINUTE + 30 * SECOND)
            assert server.change("resume").done
        else:
            server.store.close()
            server.time.ms += 10 * MINUTE + 30 * SECOND
            server.open()
            server.work(room=100, lease_ms=DAY)
        server.sleep(10 * SECOND, finishes=True)
        assert [int(name[14:16]) - 46 for name in server.names()] == found
        server.sleep(20 * SECOND + 1, finishes=True)
        assert len(server.leased_at) == len(found) + 1
        assert server.state_of().skipped == 0

    def test_all_in_turn_wait_for_the_one_before(self, server):
        """As long as that takes; the times that come meanwhile are skipped."""
        server.repeat(every_ms=MINUTE, missed="all")
        server.store.close()
        server.time.ms += 3 * MINUTE
        server.open()
        server.work(room=100, lease_ms=DAY)
        server.sleep(2 * MINUTE + SECOND)
        assert len(server.leased_at) == 1
        server.finish_all()
        server.sleep(SECOND)
        assert len(server.leased_at) == 2
        server.finish_all()
        server.sleep(SECOND, finishes=True)
        assert [name[11:] for name in server.names()] == ["01:47:40Z", "01:48:40Z", "01:49:40Z"]
        server.sleep(SECOND, finishes=True)
        state = server.state_of()
        assert (state.skipped, state.next_ms) == (2, START_MS + 6 * MINUTE)

    def test_times_that_come_during_a_start(self, server):
        """They are missed: the journal may take long."""
        server.repeat(every_ms=10 * SECOND, missed="all")
        server.store.close()
        server.sink = SlowSink(server.time, 30 * SECOND)
        server.open()
        server.work(room=100, lease_ms=DAY)
        for _ in range(3):
            server.sleep(SECOND, finishes=True)
        assert [name[11:] for name in server.names()] == ["01:46:50Z", "01:47:00Z", "01:47:10Z"]
        assert server.state_of().skipped == 0

    def test_a_short_stop_is_one_too(self, server):
        """The time passed while no server ran, though by a second only."""
        server.repeat(every_ms=MINUTE, missed="none")
        server.sleep(59 * SECOND)
        server.store.close()
        server.time.ms += 2 * SECOND
        server.open()
        server.work(room=100, lease_ms=DAY)
        server.sleep(SECOND)
        assert server.leased_at == []
        assert server.state_of().next_ms == START_MS + 2 * MINUTE

    def test_a_server_that_is_a_little_late_has_missed_nothing(self, server):
        """It runs what has come."""
        server.repeat(every_ms=MINUTE, missed="none")
        server.time.ms += MINUTE + repeat_runs.LATE_MS - 1
        server.sleep(1)
        assert len(server.leased_at) == 1

    def test_a_server_that_was_stopped_has_missed_what_came(self, server):
        """As after SIGSTOP, or while the disk fails for minutes."""
        server.repeat(every_ms=MINUTE, missed="none")
        server.time.ms += 5 * MINUTE + SECOND
        server.sleep(1)
        assert server.leased_at == []
        assert server.state_of().next_ms == START_MS + 6 * MINUTE

    def test_a_million_times_block_nobody(self, server, monkeypatch):
        """They run in portions, and other repeats on time between them."""
        monkeypatch.setattr(repeat_runs, "RUNS_KEPT", 10)
        server.repeat("many", every_ms=10, missed="all", overlap="allow", kind="x")
        server.repeat("other", every_ms=500, overlap="allow")
        server.store.close()
        server.time.ms += 10_000_000
        server.open()
        server.work(room=100, lease_ms=DAY)
        submitted = 0
        for _ in range(20):
            server.step(once=True)
            server.note_leased()
            pending = server.state.purgatory.delayed + len(server.state.leases.by_number)
            assert pending - submitted <= repeat_runs.STEPS
            submitted = pending
            server.time.ms += repeat_runs.PAUSE_MS
        assert submitted > 10 * repeat_runs.STEPS_OF_ONE
        server.sleep(SECOND)
        late = [job_id for _, job_id in server.leased_at if job_id.startswith("other")]
        assert len(late) == 3  # one that was missed, and two on time

    def test_portions(self, server):
        """A transaction submits so many runs of a repeat, and so many of all."""
        for name in ("a", "b", "c"):
            server.repeat(name, every_ms=10, missed="all", overlap="allow", kind="x")
        server.store.close()
        server.time.ms += HOUR
        server.open()
        server.step(once=True)
        submitted = Counter(job_id[0] for job_id in server.state.known)
        one, most = repeat_runs.STEPS_OF_ONE, repeat_runs.STEPS
        assert sorted(submitted.values()) == [most - 2 * one, one, one]

    def test_a_million_skipped_times_are_passed_over_at_once(self, server):
        """One run of them, or none, takes one look."""
        server.repeat("one", every_ms=10, overlap="allow")
        server.repeat("none", cron="* * * * *", missed="none")
        server.store.close()
        server.time.ms += 100 * DAY
        server.open()
        server.work(room=100, lease_ms=DAY)
        server.step(once=True)
        for name in ("one", "none"):
            assert server.state.repeats.by_key["c", name].next_ms > server.time.ms


class TestOverlap:
    def test_none_begins_while_one_is_running(self, server):
        """Those times are skipped, and counted."""
        server.repeat(every_ms=SECOND)
        server.sleep(3 * SECOND + 500)
        assert len(server.leased_at) == 1
        assert server.state_of().skipped == 2
        server.finish_all()
        server.sleep(SECOND)
        assert len(server.leased_at) == 2
        assert server.state_of().skipped == 2

    def test_nor_while_one_is_ready(self, make_server):
        """No worker has taken it."""
        server = make_server()
        server.repeat(every_ms=SECOND, kind="nobody")
        server.sleep(5 * SECOND + 10)
        assert server.state_of().skipped == 4

    def test_nor_while_one_is_retrying(self, server):
        """It waits for its next attempt."""
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        server.finish(*server.begun, how=How.FAILED, delay_ms=60_000)
        server.sleep(3 * SECOND)
        assert server.state_of().skipped == 3

    def test_a_dead_one_is_none(self, server):
        """It was given up: the next one runs."""
        server.work(room=100, attempts=1)
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        server.finish(*server.begun, how=How.FAILED)
        server.sleep(SECOND)
        assert (len(server.leased_at), server.state_of().skipped) == (2, 0)

    def test_a_cancelled_one_is_none(self, make_server):
        """It has ended."""
        server = make_server()
        server.repeat(every_ms=SECOND, kind="nobody")
        server.time.ms += SECOND
        server.step(once=True)
        server.cancel("r@2001-09-09T01:46:41Z")
        server.sleep(SECOND + 1)
        assert server.state_of().skipped == 0

    def test_it_is_known_after_a_restart(self, server):
        """The run of before is still running, or ready."""
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        server.crash()
        server.sleep(SECOND)
        assert server.state_of().skipped == 1

    @pytest.mark.parametrize("restarts", [False, True])
    def test_nor_while_one_of_a_deleted_repeat_is_running(self, server, restarts):
        """A new repeat of the name waits for its end, also after a restart."""
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        server.change("delete")
        if restarts:
            server.crash()
        server.repeat(every_ms=SECOND)
        server.sleep(2 * SECOND + 500)
        assert (len(server.leased_at), server.state_of().skipped) == (1, 2)
        assert not server.change("run").done

    def test_it_runs_after_the_run_of_a_deleted_repeat(self, server):
        """When that has ended."""
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        server.change("delete")
        server.repeat(every_ms=SECOND)
        server.finish_all()
        server.sleep(SECOND + 10)
        assert (len(server.leased_at), server.state_of().skipped) == (2, 0)

    def test_nor_while_one_is_run_and_deleted_in_the_same_transaction(self, server):
        """The run that was asked for counts for the repeat that is declared then."""
        server.repeat(every_ms=MINUTE)
        server.post(ChangeRepeat, "r", "run")
        server.post(ChangeRepeat, "r", "delete")
        server.post(SetRepeat, Repeat("r", every_ms=MINUTE, payload=Raw(NOTHING)))
        server.post(ChangeRepeat, "r", "run")
        run, deleted, _, again = server.step()[0]
        assert (run.done, deleted.done, again.done) == (True, True, False)

    def test_jobs_that_are_no_runs_of_a_deleted_repeat(self, server):
        """Jobs with its tag, or an id like a run's, or of another client; and ended runs."""
        server.submit(job("x@y", timeout_ms=0, tags=("r",)), job("r@z", timeout_ms=0))
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        server.finish_all()
        server.submit(job("x@z", timeout_ms=0, tags=("r",)))
        server.change("delete")
        server.repeat(every_ms=SECOND)
        assert server.state.repeats.by_key["c", "r"].runs == ()

    def test_they_may_be_allowed(self, server):
        """Then each time has its run."""
        server.repeat(every_ms=SECOND, overlap="allow")
        server.sleep(3 * SECOND + 500)
        assert len(server.leased_at) == 3

    def test_another_job_with_such_an_id_is_no_run(self, server):
        """An id that the user has given to a job of another time does no harm."""
        server.submit(job("r@some day"))
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 500)
        assert "r@2001-09-09T01:46:41Z" in [job_id for _, job_id in server.leased_at]


class TestTogetherOnDisk:
    def test_a_restart_at_each_moment(self, server):
        """The job and the next time are committed together: each time has one run."""
        server.repeat(every_ms=SECOND, missed="all", overlap="allow")
        seen = set()
        for _ in range(40):
            server.time.ms += 130
            server.step(once=True)
            server.crash()
            seen |= {op_id for op_id in server.state.known if op_id.startswith("r@")}
            assert len(server.state.known) == len(seen)
        assert len(seen) == 5

    def test_a_commit_that_fails(self, server):
        """Neither the job nor the next time changes; both do a second later."""
        server.repeat(every_ms=SECOND)
        before = server.state.repeats.by_key["c", "r"]
        server.faults.fail()
        server.time.ms += SECOND
        server.step(once=True)
        assert server.state.repeats.by_key["c", "r"] is before
        assert not server.state.known
        server.faults.clear()
        server.sleep(1500)
        assert len(server.leased_at) == 1
        server.crash()
        assert server.state_of().last_ms == START_MS + SECOND

    def test_a_request_that_fails_in_the_same_transaction(self, server):
        """The run is made by the next one."""
        server.repeat(every_ms=SECOND)
        server.time.ms += SECOND
        broken = job("a")
        broken.payload = None  # the handler cannot know: no message of the protocol has that
        assert server.submit(broken).code == "internal"
        server.sleep(10)
        assert len(server.leased_at) == 1


class TestRefused:
    def test_too_many_operations_wait(self, make_server):
        """The run waits until there is room; it is late, and not lost."""
        server = make_server(pending=1)
        server.submit(job("a", kind="nobody", timeout_ms=10**8))
        server.repeat(every_ms=SECOND)
        server.sleep(5 * SECOND)
        assert server.leased_at == []
        server.cancel("a")
        server.sleep(2 * SECOND)
        assert server.names()[0] == "2001-09-09T01:46:41Z"

    def test_no_memory_is_left(self, server):
        """Likewise."""
        server.repeat(every_ms=SECOND)
        server.state.max_memory = server.state.memory_bytes + 100
        server.sleep(3 * SECOND)
        assert server.leased_at == []
        server.state.max_memory = 0
        server.sleep(2 * SECOND)
        assert server.leased_at


class TestRemembered:
    def test_a_run_is_remembered_as_any_job(self, make_server):
        """Those of shorter intervals for minutes only: they would be a great part of all."""
        server = make_server()
        server.repeat("seldom", every_ms=MINUTE)
        server.repeat("often", every_ms=MINUTE - 1)
        server.repeat("daily", cron="* * * * *")
        server.sleep(MINUTE + SECOND)
        periods = {job.tags[0]: job.options.unique_ms for job in jobs_of(server)}
        day_ms = server.state.remembered.remember_ms
        assert periods == {"seldom": day_ms, "daily": day_ms, "often": MADE_UP}

    def test_the_server_remembers_as_many_ids_as_it_may(self, server):
        """Runs go on; their ids are known for minutes."""
        server.state.remembered.most = 0
        server.repeat(every_ms=MINUTE)
        server.sleep(MINUTE + SECOND)
        [job] = jobs_of(server)
        assert job.options.unique_ms == MADE_UP


def jobs_of(server):
    """Return the records of all jobs that were leased."""
    return [server.state.known[leased.op_id].job for leased in server.begun]
