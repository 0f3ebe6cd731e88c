"""The sections about jobs on a page."""

from purgatory.spark.report.page.job_sections import job_cards, job_sections
from tests.testing.job_journals import HOUR, MONDAY, job_report_of, make_job, mixed_jobs


def test_sections_that_have_rows():
    """Each has a heading; one without rows is left out."""
    report = job_report_of(mixed_jobs(900))
    heads = [made.partition("<h2>")[2].partition("</h2>")[0] for made in job_sections(report)]
    assert heads == ["Jobs", "Errors of jobs", "Jobs by hour of the week", "Workers"]
    fine = job_sections(job_report_of([make_job(1)]))
    assert "Share that" not in "".join(fine)
    assert "expired" not in "".join(fine)


def test_the_most_important_figures():
    """How many ended and how, and how long they took."""
    cards = job_cards(job_report_of([make_job(1), make_job(2, state="dead", error="E")]))
    assert cards[:3] == [("2", "ends of jobs"), ("50 %", "done"), ("1", "dead")]
    never = [make_job(1, state="cancelled", queue=None, error="cancelled")]
    assert job_cards(job_report_of(never))[3][0] == "\N{EN DASH}"


def test_the_hours_of_the_week():
    """A field for each hour with jobs; the text names the one with most."""
    rows = [make_job(n, due=MONDAY + (30 if n else 2) * HOUR) for n in range(3)]
    [made] = [one for one in job_sections(job_report_of(rows)) if "<h2>Jobs by hour" in one]
    assert "Jobs due, by hour of the week (UTC)" in made
    assert "Most, 2, on Tue 06:00." in made
    assert made.count('class="box heat"') == 4  # wide and narrow
