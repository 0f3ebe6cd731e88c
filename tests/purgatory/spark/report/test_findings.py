"""What to do with the timeouts of a kind, and in which words."""

import random
from dataclasses import replace

import pytest

from purgatory.spark.report.content import Action, HotKey, Report
from purgatory.spark.report.findings import all_advice, headlines, timeout_advice
from purgatory.spark.report.formatting import share
from purgatory.spark.report.histograms import ALL_KINDS
from tests.testing import reports
from tests.testing.job_journals import job_report_of, make_job
from tests.testing.journals import finding_of, make_outcome, report_of


def operations(count, timeouts, wait):
    """Make outcomes whose waits are those of `wait()`, cut off by one of `timeouts`."""
    rng = random.Random(1)
    rows = []
    for number in range(count):
        timeout, needs = rng.choice(timeouts), wait(rng)
        rows.append(make_outcome(number, 0, timeout, needs if needs <= timeout else None))
    return rows


def some_never(rng):
    """Nine of ten complete within five seconds, one never."""
    return rng.randrange(5000) if rng.random() < 0.9 else 10**9


def slow(rng):
    """Any time up to a minute."""
    return rng.randrange(60_000)


def test_a_timeout_much_too_long_is_shortened():
    """The proposal loses hardly a completion, and says what it saves."""
    finding = finding_of(operations(5000, [30_000], some_never))
    assert finding.action is Action.SHORTEN
    assert 4980 <= finding.proposed.timeout_ms < 5000
    what, why, *_ = timeout_advice(finding)
    assert what.startswith("all kinds: 30 s \N{RIGHTWARDS ARROW} 5 s")
    assert "known 25 s sooner" in why
    assert "not 5." in why  # a tenth of them waits 30 s
    assert "fewer than one in 1,000" in why


def test_a_longer_timeout_is_proposed_where_others_have_it():
    """Operations with long timeouts tell what those with short ones would gain."""
    finding = finding_of(operations(4000, [10_000, 10_000, 60_000], slow))
    assert finding.action is Action.LENGTHEN
    assert 40_000 < finding.proposed.timeout_ms <= 60_000
    what, why, *_ = timeout_advice(finding)
    assert "10 s (10 s to 1 min)" in what
    assert "more of 4,000 operations complete" in why


def test_the_same_timeout_everywhere_tells_nothing_of_longer_ones():
    """If completions still come at the deadline, the advice is to try."""
    finding = finding_of(operations(2000, [10_000], slow))
    assert (finding.action, finding.proposed) == (Action.TRY_LONGER, None)
    what, why, *_ = timeout_advice(finding)
    assert "try more than 10 s" in what
    assert "do not show how many more" in why


def test_nothing_completes():
    """That is no matter of timeouts."""
    finding = finding_of(operations(200, [10], lambda _: 11))
    assert finding.action is Action.CHECK_KEYS
    what, *_ = timeout_advice(finding)
    assert "nothing completes" in what


@pytest.mark.parametrize(
    "rows",
    [
        operations(99, [30_000], some_never),  # too few
        operations(5000, [5500], some_never),  # a tenth longer than needed
        operations(5000, [30_000], lambda rng: rng.randrange(1000)),  # nothing expires
        operations(5000, [1000 * n for n in range(1, 12)], slow),  # each has its own
    ],
)
def test_a_timeout_that_does_is_left(rows):
    """There is no finding without evidence or gain."""
    assert finding_of(rows) is None


def test_headline():
    """The first sentence counts the kinds to change."""
    assert headlines(Report(0, 0, 0, 0, exact=True, bin_ms=1)) == []
    own = report_of(operations(300, [1000 * n for n in range(1, 12)], slow))
    expired = own.summaries[0].expired
    assert headlines(own) == [f"{share(expired / 300)} of 300 operations expired."]
    assert all_advice(own)[0].what == "No timeout is proposed"
    jobs = job_report_of([make_job(n, state="dead", error="E") for n in range(20)])
    assert headlines(replace(own, jobs=jobs))[0] == "Jobs: their kind needs a look."
    well = replace(own, jobs=job_report_of([make_job(1)]), operations=0)
    assert headlines(well) == ["Jobs: nothing stands out among 1 that ended."]
    finding = finding_of(operations(5000, [30_000], some_never))
    kinds = [ALL_KINDS._replace(total=False, name=name) for name in "ab"]
    summaries = tuple(finding.summary._replace(kind=kind) for kind in kinds)
    report = Report(1, 2, 0, 0, exact=True, bin_ms=1, summaries=summaries, findings=(finding,))
    assert headlines(report) == ["Change the timeouts of 1 of 2 kinds."]


def test_without_a_finding_the_kinds_differ():
    """The first sentence has the kind with most expired operations, and that with fewest."""
    rows = [
        *(make_outcome(n, 0, 9, None if n % 4 else 5, kind="often") for n in range(200)),
        *(make_outcome(n, 0, 9, 5 if n % 4 else None, kind="rarely") for n in range(200)),
    ]
    report = report_of(rows)
    said = "50 % of 400 operations expired, from 25 % of rarely to 75 % of often."
    assert headlines(report) == [said]
    assert all_advice(report)[0].what == "Leave the timeouts as they are"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (operations(5000, [30_000], some_never), "Shorten the timeout."),
        (operations(4000, [10_000, 10_000, 60_000], slow), "Lengthen the timeout."),
        (operations(2000, [10_000], slow), "Try to lengthen the timeout."),
        (operations(200, [10], lambda _: 11), "Check the keys before the timeout."),
    ],
)
def test_the_headline_of_a_single_kind(rows, said):
    """It says what to do."""
    report = report_of(rows)
    assert headlines(replace(report, findings=(finding_of(rows),))) == [said]


def test_kinds_without_a_proposal():
    """They are to be looked at."""
    rows = [row._replace(kind=kind) for kind in "ab" for row in operations(2000, [10_000], slow)]
    report = report_of(rows)
    findings = (finding_of(rows),)
    assert headlines(replace(report, findings=findings)) == ["Look at 1 of 2 kinds."]


def test_a_key_that_a_tenth_watches():
    """Its share is told; a key of fewer is not, nor one where the submissions are not known."""
    report = report_of(operations(300, [10], lambda _: 5))
    total, *kinds = report.summaries

    def advice(watched, submitted):
        return all_advice(
            replace(
                report,
                summaries=(total._replace(submitted=submitted), *kinds),
                hot_keys=(HotKey(ALL_KINDS, "order:1", watched, 30),),
            )
        )

    [_, (what, why, _)] = advice(30, 300)
    assert what == "Key order:1: 10 % of all operations"
    assert why.startswith("So many operations watch this one key")
    for watched, submitted in ((29, 300), (None, None), (30, None)):
        assert len(advice(watched, submitted)) == 1


def test_advice_about_a_wheel_is_for_programs():
    """The wheel of a server is no setting; that of a `Timer` is."""
    program = reports.report("a")
    assert any("Timer(" in advice.what for advice in all_advice(program))
    server = replace(program, is_server=True)
    assert not any("Timer(" in advice.what for advice in all_advice(server))
