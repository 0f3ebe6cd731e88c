"""No sentence of a report is false: a journal of 50,000 jobs and 50,000 waits, read again by hand.

Each sentence of the advice has a pattern here, and each figure of it is counted in the rows.
"""

import random
import re
from collections import Counter
from io import StringIO

import pytest
from rich.console import Console

from purgatory.spark.report.content import Kind
from purgatory.spark.report.findings import all_advice, headlines
from purgatory.spark.report.formatting import count, duration, share
from purgatory.spark.report.job import OutputFile, ReportOptions, report_journal
from tests.testing.job_journals import (
    MONDAY,
    jobs_frame,
    mixed_jobs,
    most_at_once,
    nearest_rank,
)
from tests.testing.journals import make_outcome, outcomes_frame

#: A report of so many rows takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)

COUNT = 50_000


#: By kind of waits: the timeouts, and how long an operation needs.
NEEDS = {
    "ship": ([9000], lambda rng: rng.randrange(800)),  # all complete, soon
    "pay": ([30_000], lambda rng: rng.randrange(5000) if rng.random() < 0.9 else 10**9),
    "parcel": ([10_000, 10_000, 60_000], lambda rng: rng.randrange(60_000)),
    "reply": ([10_000], lambda rng: rng.randrange(60_000)),
    "void": ([7000], lambda _: 10**9),  # none completes
}


def waits():
    """Yield waits of each kind, each with the time that its operation needs."""
    rng = random.Random(3)
    for n in range(COUNT):
        kind = list(NEEDS)[n % len(NEEDS)]
        timeouts, draw = NEEDS[kind]
        start, timeout, needs = MONDAY + rng.randrange(86_400_000), rng.choice(timeouts), draw(rng)
        end = start + needs if needs <= timeout else None
        yield make_outcome(n, start, timeout, end, kind=kind, key=f"k{n}"), needs


JOBS = mixed_jobs(COUNT)
WAITS, NEEDED = zip(*waits(), strict=True)


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    """The journal, its report, its page and what the terminal shows."""
    path = tmp_path_factory.mktemp("server") / "journal"
    jobs_frame(spark, JOBS).write.parquet(str(path / "jobs"))
    outcomes_frame(spark, WAITS).write.parquet(str(path / "outcomes"))
    page, out = path.parent / "report.html", StringIO()
    console = Console(file=out, width=100)
    report = report_journal(spark, str(path), ReportOptions(), OutputFile(page), console=console)
    return report, page.read_text(encoding="utf-8"), out.getvalue()


def jobs_of(kind):
    """Return the jobs of a kind."""
    return [row for row in JOBS if row.kind == kind]


def ends_of(kind):
    """Count the jobs of a kind by state."""
    return Counter(row.state for row in jobs_of(kind))


def dead(kind, one, of, part, error):
    ends = ends_of(kind)
    shown = [re.sub(r"\d+", "#", row.error) for row in jobs_of(kind) if row.state == "dead"]
    return (count(ends["dead"]), count(ends.total()), share(shown.count(error) / len(shown))) == (
        *(one, of),
        part,
    )


def late(kind, tenth, half, peak):
    queues = [row.queue_ms for row in jobs_of(kind)]
    found = (duration(nearest_rank(queues, 0.9)), duration(nearest_rank(queues, 0.5)))
    return (*found, count(most_at_once(jobs_of(kind)))) == (tenth, half, peak)


def burst(kind, part, minute, tenth):
    minutes = Counter(row.due_ms // 60_000 % 60 for row in jobs_of(kind))
    queues = [row.queue_ms for row in jobs_of(kind)]
    found = share(minutes[int(minute)] / minutes.total()), duration(nearest_rank(queues, 0.9))
    return found == (part, tenth)


def limit(kind, _, failed, sooner, said_kind, seconds):
    ms = int(float(seconds) * 1000)
    longer = [row for row in jobs_of(kind) if row.run_ms > ms]
    saved = sum(row.run_ms - ms for row in longer)
    assert {row.state for row in longer} == {"dead"}
    return (count(len(longer)), duration(saved), kind) == (failed, sooner, said_kind)


def vain(kind, tried, done):
    again = [row for row in jobs_of(kind) if row.attempts > 1 and row.state != "cancelled"]
    return (count(len(again)), count(sum(row.state == "done" for row in again))) == (tried, done)


def luck(kind, last, tried, again, part):
    at_last = [row for row in jobs_of(kind) if row.attempts == int(last)]
    done = sum(row.state == "done" for row in at_last)
    assert max(row.attempts for row in jobs_of(kind)) == int(last) == int(again)
    return (count(len(at_last)), share(done / len(at_last))) == (tried, part)


def sick(kind, worker, part, others):
    def dead_share(rows):
        return share(sum(row.state == "dead" for row in rows) / len(rows))

    its = [row for row in jobs_of(kind) if row.worker == worker]
    rest = [row for row in jobs_of(kind) if row.worker != worker]
    return (dead_share(its), dead_share(rest)) == (part, others)


def stale(kind, found, of):
    late_ones = [row for row in jobs_of(kind) if row.error == "not begun in time"]
    return (count(len(late_ones)), count(len(jobs_of(kind)))) == (found, of)


N, S, D = r"([\d,]+)", r"((?:[<>] )?[\d.]+ %)", r"([\d.]+ (?:ms|s|min|h|d))"
PATTERNS = {
    rf"(\w+): {N} of {N} ends were dead {S} of them with “(.*)”\. Once the cause is gone, those "
    r"that are still dead can be tried again: purgatory jobs retry --kind=\w+": dead,
    rf"(\w+): {N} of {N} jobs were not begun in time They were cancelled for their start_within\. "
    r"More workers, or a longer start_within, would have them run\.": stale,
    rf"(\w+): a tenth of the jobs began about {D} late or later Half of them began within about "
    rf"{D}\. At most {N} ran at once\. If the kind was neither paused nor limited \(purgatory jobs "
    r"limit\), start more workers, or raise the concurrency of its handler\.": late,
    rf"(\w+): {S} of the jobs were due in minute (\d+) of an hour A tenth of all began about {D} "
    r"late or later\. The jitter of a repeat, or other times, would spread them\.": burst,
    rf"(\w+): a time limit of {D} No job that was done took longer\. {N} attempts? that failed "
    rf"did, and would have ended {D} sooner in all: @worker\.on\('(\w+)', "
    r"timeout=([\d.]+)\)": limit,
    rf"(\w+): retries hardly help Of {N} jobs with more than one attempt, "
    rf"without cancelled jobs, {N} (?:was|were) done\. "
    rf"With fewer \(max_attempts\) they are dead sooner, and cost "
    r"less\.": vain,
    rf"(\w+): more than {N} attempts Of {N} jobs that came to attempt {N}, {S} were done by then, "
    r"and the rest are dead\. A larger max_attempts is worth a try\.": luck,
    rf"(\w+): look at worker (\w+) {S} of its jobs are dead; of the other workers' jobs "
    rf"{S}\.": sick,
}


def test_each_sentence_about_jobs_is_true(written):
    """All of them have a pattern, and all patterns are found."""
    report, _, _ = written
    advice = [" ".join(filter(None, one)) for one in all_advice(report)]
    used = set()
    for sentence in advice:
        found = [(p, m) for p in PATTERNS if (m := re.fullmatch(p, sentence))]
        if sentence.partition(":")[0] not in NEEDS:
            [(pattern, match)] = found
            assert PATTERNS[pattern](*match.groups()), sentence
            used.add(pattern)
    assert used == set(PATTERNS)


def waits_of(kind):
    """Return the waits of a kind."""
    return [row for row in WAITS if row.kind == kind]


def share_of(rows, outcome):
    return share(sum(row.outcome == outcome for row in rows) / len(rows))


def mean(times):
    return duration(sum(times) / len(times))


def shorter(rows, limit_ms, part, sooner, wait, now, lost):
    done = [row.waited_ms for row in rows if row.outcome == "completed"]
    timeout_ms = rows[0].deadline_ms - rows[0].submitted_ms
    late = sum(wait_ms > limit_ms for wait_ms in done)
    assert 0 < late < len(done) / 1000
    verb = "is" if late == 1 else "are"
    assert lost == (
        f"{count(late)} of {count(len(done))} completions {verb} lost, fewer than one in 1,000"
    )
    return (part, sooner, wait, now) == (
        share_of(rows, "expired"),
        duration(timeout_ms - limit_ms),
        mean([min(row.waited_ms, limit_ms) for row in rows]),
        mean([row.waited_ms for row in rows]),
    )


def longer(rows, limit_ms, gained, of, part, now_part, wait, now, rests):
    """The gain is an estimate from the long timeouts: near what the operations need."""
    needs = [needed for row, needed in zip(WAITS, NEEDED, strict=True) if row.kind == rows[0].kind]
    more = sum(need <= limit_ms for need in needs) - sum(row.outcome == "completed" for row in rows)
    near = len(rows) / 40
    assert abs(int(gained.replace(",", "")) - more) < near
    assert abs(float(part.split()[0]) / 100 * len(rows) - sum(n <= limit_ms for n in needs)) < near
    true_part = sum(row.outcome == "completed" for row in rows) / len(rows)
    assert abs(float(now_part.split()[0]) / 100 - true_part) < 0.025
    for said, true in (
        (wait, sum(min(need, limit_ms) for need in needs)),
        (now, sum(row.waited_ms for row in rows)),
    ):
        assert said.endswith(" s")
        assert abs(float(said[:-2]) * 1000 - true / len(rows)) < 0.05 * true / len(rows)
    return (of, rests) == (count(len(rows)), count(sum(row.waited_ms >= limit_ms for row in rows)))


def not_long_enough(rows, _, timeout, part):
    timeouts_ms = {row.deadline_ms - row.submitted_ms for row in rows}
    late = [row for row in rows if 0.9 * max(timeouts_ms) < row.waited_ms < max(timeouts_ms)]
    assert len(late) >= len(rows) / 100
    return (part, {timeout}) == (share_of(rows, "expired"), set(map(duration, timeouts_ms)))


def nothing(rows, _, found):
    return found == count(len(rows)) and not any(row.outcome == "completed" for row in rows)


WAIT_PATTERNS = {
    rf"pay: 30 s → (?:{D[1:-1]}) What does not complete \({S}\) is known {D} sooner\. An operation "
    rf"waits {D} on average, not {D}; (.*)\.": shorter,
    rf"parcel: 10 s \(10 s to 1 min\) → (?:{D[1:-1]}) About {N} more of {N} operations completes?: "
    rf"{S}, not {S}\. An operation waits {D} on average, not {D}\. It rests on {N} operations that "
    r"waited so long\.": longer,
    rf"reply: try more than {D} {S} expire, and completions still come when the timeout ends the "
    r"wait\. These outcomes do not show how many more would complete with a longer one: give it "
    r"to a part of the operations, and report again\.": not_long_enough,
    rf"void: nothing completes All {N} operations ended otherwise\. If that is not what they are "
    r"for, as of delays, see whether events with their keys come at all\.": nothing,
}


def test_each_sentence_about_waits_is_true(written):
    """One of each rule; nothing is said of the kind whose operations all complete."""
    report, _, _ = written
    proposed = {f.summary.kind.name: f.proposed.timeout_ms for f in report.findings if f.proposed}
    advice = (one for one in all_advice(report) if one.what.partition(":")[0] in NEEDS)
    said = [" ".join(filter(None, one)) for one in advice]
    used = set()
    for sentence in said:
        kind = sentence.partition(":")[0]
        [(pattern, match)] = [(p, m) for p in WAIT_PATTERNS if (m := re.fullmatch(p, sentence))]
        limit_ms = proposed.get(kind)
        assert limit_ms is None or f"→ {duration(limit_ms)} " in sentence
        assert WAIT_PATTERNS[pattern](waits_of(kind), limit_ms, *match.groups()), sentence
        used.add(pattern)
    assert used == set(WAIT_PATTERNS)
    assert headlines(report) == [
        "Jobs: 8 of 9 kinds need a look.",
        "Change the timeouts of 2 of 5 kinds.",
    ]


def test_each_row_of_jobs_is_true(written):
    """The summaries, by kind and in all."""
    report, _, _ = written
    for row in report.jobs.summaries:
        rows = JOBS if row.kind.total else jobs_of(row.kind.name)
        ends = Counter(job.state for job in rows)
        assert (row.done, row.dead, row.cancelled) == (
            ends["done"],
            ends["dead"],
            ends["cancelled"],
        )
        assert (row.attempts, row.peak) == (sum(j.attempts for j in rows), most_at_once(rows))
    assert Kind(False, "mail") in {row.kind for row in report.jobs.summaries}


def test_a_server_is_told_nothing_of_a_timer(written):
    """Its wheel is no setting; and a job is never expired."""
    report, page, text = written
    assert report.is_server
    for shown in (page, text):
        assert "Timer(" not in shown
        assert "Timing wheel" not in shown
    jobs_part = page[page.index("<h2>Jobs</h2>") : page.index("<h2>Timeouts</h2>")]
    assert "expired" not in jobs_part
    assert "<title>Report: 50,000 jobs and 50,000 waits</title>" in page
