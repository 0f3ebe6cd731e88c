"""Each rule speaks when it has reason to, and is silent otherwise."""

import subprocess

import pytest

from purgatory.cli.entry_point import make_parser
from purgatory.service.server.leases.lease_ends import NOT_BEGUN
from purgatory.spark.report.content import Kind
from purgatory.spark.report.jobs import job_advice
from purgatory.spark.report.jobs.job_advice import kinds_with_advice
from tests.testing.job_journals import MINUTE, MONDAY, SECOND, job_report_of, make_job, mixed_jobs


def said(rule, rows):
    """Return what a rule says of the only kind, or None."""
    report = job_report_of(rows)
    return rule(report, report.summaries[1])


def many(count, *args, **changes):
    """Make so many ends that are alike."""
    return [make_job(n, *args, **changes) for n in range(count)]


DEAD = {"state": "dead", "error": "ValueError: no"}
LATE = {"queue": 20 * SECOND}


class TestDeadJobs:
    def test_a_percent_is_dead(self):
        """It has the share of the first error, and the command that tries them again."""
        others = many(2, state="dead", error="OSError: disk")
        what, why, command = said(job_advice.dead_jobs, [*many(800), *many(8, **DEAD), *others])
        assert what == "mail: 10 of 810 ends were dead"
        assert why.startswith("80 % of them with “ValueError: no”. Once the cause is gone")
        assert make_parser().parse_args(command.split()[1:]).run

    @pytest.mark.parametrize(
        "kind",
        [
            "",
            "-x",
            "it's $HOME",
            "a\nb\\'c\t9",
            "\N{NO-BREAK SPACE}\N{RIGHT-TO-LEFT OVERRIDE}é",
            "x" * 99,
        ],
    )
    def test_a_shell_reads_the_exact_kind(self, kind):
        """The command is one printable line, whatever the name."""
        command = said(job_advice.dead_jobs, many(10, kind=kind, **DEAD)).command
        assert command.isprintable()
        words = subprocess.check_output(["bash", "-c", f"printf '%s\\0' {command}"]).decode()
        arguments = make_parser().parse_args(words.split("\0")[1:-1])
        assert arguments.kind == kind

    @pytest.mark.parametrize(
        "rows",
        [many(800), [*many(80), *many(9, **DEAD)], [*many(1100), *many(10, **DEAD)]],
    )
    def test_few_are_dead(self, rows):
        """Nothing is said of less than ten, or of less than a percent."""
        assert said(job_advice.dead_jobs, rows) is None


class TestNotBegun:
    ROWS = many(20, state="cancelled", queue=None, error="not begun in time")

    def test_in_time(self):
        """It counts those that were cancelled for that."""
        what, *_ = said(job_advice.not_begun, [*many(500), *self.ROWS])
        assert what == "mail: 20 of 520 jobs were not begun in time"

    @pytest.mark.parametrize(
        "rows",
        [
            [*many(500), *many(20, state="cancelled", queue=None, error="cancelled")],
            [*many(500), *ROWS[:9]],
            [*many(2000), *ROWS[:19]],
        ],
    )
    def test_otherwise_cancelled(self, rows):
        """Those that somebody cancelled do not count, nor do few."""
        assert said(job_advice.not_begun, rows) is None


class TestTooFewWorkers:
    def test_a_tenth_is_late(self):
        """With the times, and how many ran at once."""
        what, why, *_ = said(job_advice.too_few_workers, [*many(85), *many(15, **LATE)])
        assert what == "mail: a tenth of the jobs began about 20 s late or later"
        assert "Half of them began within about 0 ms. At most 85 ran at once." in why
        assert "purgatory jobs limit)" in why

    @pytest.mark.parametrize(
        "rows", [[*many(95), *many(5, **LATE)], many(99, **LATE), many(500, queue=999)]
    )
    def test_few_are_late(self, rows):
        """Nothing is said of a twentieth, of few jobs, or of less than a second."""
        assert said(job_advice.too_few_workers, rows) is None


def spread(count, **changes):
    """Make jobs that are due in all minutes of an hour."""
    return [make_job(n, due=MONDAY + n % 60 * MINUTE, **changes) for n in range(count)]


class TestBursts:
    def test_one_minute(self):
        """It names the minute."""
        rows = [*spread(120, **LATE), *many(80, **LATE)]
        what, why, *_ = said(job_advice.bursts, rows)
        assert what == "mail: 41 % of the jobs were due in minute 0 of an hour"
        assert "jitter of a repeat" in why

    @pytest.mark.parametrize("rows", [many(200), spread(200, **LATE), many(99, **LATE)])
    def test_no_burst(self, rows):
        """Nothing is said if nothing waits, if jobs are spread, or of few."""
        assert said(job_advice.bursts, rows) is None


class TestLongAttempts:
    HUNG = many(5, state="dead", run=100 * SECOND, error="TimeLimit")

    def test_failed_attempts_take_long(self):
        """The limit has room above each job that was done; the handler's setting is shown."""
        what, why, command = said(job_advice.long_attempts, [*many(200, run=700), *self.HUNG])
        assert what == "mail: a time limit of 1 s"
        assert "5 attempts that failed did, and would have ended 8.25 min sooner in all" in why
        assert command == "@worker.on('mail', timeout=1)"

    def test_a_single_attempt(self):
        """One is no plural."""
        _, why, *_ = said(job_advice.long_attempts, [*many(200, run=700), self.HUNG[0]])
        assert "longer. 1 attempt that failed did" in why

    @pytest.mark.parametrize(
        "rows",
        [
            [*many(200, run=700), *many(5, run=700, **DEAD)],  # fail at once
            [*many(99, run=700), *HUNG],  # few
            [*many(200, run=100 * SECOND), *HUNG],  # done ones take as long
            [*many(9000, run=2 * SECOND), *HUNG],  # not worth it
        ],
    )
    def test_they_do_not(self, rows):
        """Nothing is said without a gain."""
        assert said(job_advice.long_attempts, rows) is None


class TestVainRetries:
    AGAIN = many(200, state="dead", attempts=5, error="KeyError")

    def test_hardly_any_is_done(self):
        """It counts those that were tried again."""
        _, why, *_ = said(job_advice.vain_retries, [*many(10), *self.AGAIN, *many(1, attempts=2)])
        assert "Of 201 jobs with more than one attempt" in why
        assert ", 1 was done" in why

    @pytest.mark.parametrize(
        "rows", [many(500, **DEAD), AGAIN[:99], [*AGAIN, *many(3, attempts=2)]]
    )
    def test_some_are_done(self, rows):
        """Nothing is said of single attempts, of few, or if a percent is done."""
        assert said(job_advice.vain_retries, rows) is None


class TestLastAttempts:
    def test_many_are_done_by_the_last(self):
        """One more is worth a try."""
        rows = [*many(60, attempts=3), *many(60, state="dead", attempts=3, error="E")]
        what, why, *_ = said(job_advice.last_attempts, rows)
        assert what == "mail: more than 3 attempts"
        assert "Of 120 jobs that came to attempt 3, 50 % were done by then" in why

    @pytest.mark.parametrize(
        "rows",
        [
            many(500, attempts=3),  # none dies
            [*many(500), *many(120, **DEAD)],  # one attempt each
            [*many(20, attempts=3), *many(200, state="dead", attempts=3, error="E")],
            [*many(20, attempts=3), *many(20, state="dead", attempts=3, error="E")],
            [*many(200, attempts=5), *many(200, state="dead", attempts=3, error="E")],
        ],
    )
    def test_they_are_not(self, rows):
        """Nothing is said if few are done by it, of few, or if others have more attempts."""
        assert said(job_advice.last_attempts, rows) is None


class TestBadWorker:
    def test_one_stands_out(self):
        """It compares with the others."""
        bad = [*many(50, worker="bad"), *many(50, worker="bad", **DEAD)]
        what, why, *_ = said(job_advice.bad_worker, [*many(200), *many(2, **DEAD), *bad])
        assert what == "mail: look at worker bad"
        assert why == "50 % of its jobs are dead; of the other workers' jobs 0.99 %."

    @pytest.mark.parametrize(
        "rows",
        [
            [*many(100), *many(100, **DEAD)],  # the only one
            [*many(100), *many(50, **DEAD), *many(50, worker="b"), *many(50, worker="b", **DEAD)],
            [*many(200), *many(5, worker="b", **DEAD)],  # few
            [*many(99), *many(50, worker="b", **DEAD)],  # few others
        ],
    )
    def test_none_stands_out(self, rows):
        """Nothing is said if all are alike, or of few jobs."""
        assert said(job_advice.bad_worker, rows) is None


def test_the_worst_kind_is_first():
    """That with the most dead jobs, or that waits longest; not the largest kind."""
    rows = [*many(800, "large"), *many(10, "large", **DEAD), *many(90, "worse", **DEAD)]
    rows += [*many(900, "busy", queue=2 * SECOND), *many(300, "stuck", **LATE)]
    found = [advice.what.partition(":")[0] for advice in job_advice.job_advice(job_report_of(rows))]
    assert found[:2] == ["worse", "large"]
    assert found[2:4] == ["stuck", "busy"]


def test_the_kinds_that_are_named():
    """Each kind that was made for a rule, and not the one that is fine."""
    rows = mixed_jobs(9000)
    report = job_report_of(rows)
    names = {kind.name for kind in kinds_with_advice(report)}
    assert names == {row.kind for row in rows} - {"fine"}
    for rule in job_advice.RULES:
        assert any(rule(report, summary) for summary in report.summaries[1:]), rule


def test_the_text_of_a_cancellation_is_the_servers():
    """A rule looks for it."""
    assert NOT_BEGUN == job_advice._NOT_BEGUN


def test_nothing_is_said_of_other_kinds():
    """Those that were put together are no kind."""
    report = job_report_of(many(100, **DEAD))
    [total, mail] = report.summaries
    assert job_advice.job_advice(report)
    others = (total, mail._replace(kind=Kind(False, None)))
    object.__setattr__(report, "summaries", others)
    assert job_advice.job_advice(report) == []
