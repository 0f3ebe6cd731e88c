"""JobEntry finds each kind of broken promise about a job."""

from purgatory.service.protocol import How
from tests.drill.job_entry import End, Given, JobEntry, Run


def entry_of(*leases, result=None, runs=(), ends=()):
    """Make the entry of a done job; `leases`, `runs`: token and worker, a second each."""
    return JobEntry(
        "job",
        acked_at=1.0,
        given=[Given(token, worker, "tcp://a", at) for at, (token, worker) in enumerate(leases)],
        runs=[Run(token, at, at + 0.5, worker) for at, (token, worker) in enumerate(runs)],
        ends=[End(token, worker, how, 9.0, taken) for token, worker, how, taken in ends],
        state="done",
        result=result,
    )


def kinds(entry):
    """Return the kinds of what was broken."""
    return [violation.kind for violation in entry.broken()]


def test_a_job_done_by_its_last_lease():
    """An attempt before it has failed."""
    leases = [(1, "v"), (7, "w")]
    ends = [(1, "v", How.FAILED, True), (7, "w", How.DONE, True)]
    assert kinds(entry_of(*leases, runs=leases, ends=ends, result=7)) == []


def test_a_job_that_was_acknowledged_and_is_not_done():
    """It is lost; without the acknowledgement it is not."""
    assert kinds(JobEntry("job", acked_at=1.0, state="JobUnknown")) == ["lost"]
    assert kinds(JobEntry("job", state="JobUnknown")) == []


def test_a_run_that_goes_on_under_a_later_lease():
    """Another handler may have run between: what counts is the lease of the end."""
    leases = [(1, "v"), (2, "w"), (3, "v")]
    runs = [(1, "v"), (2, "w")]
    entry = entry_of(*leases, runs=runs, ends=[(3, "v", How.DONE, True)], result=1)
    assert (kinds(entry), entry.went_on, entry.was_overtaken) == ([], True, True)
    entry = entry_of(*leases, runs=runs, ends=[(3, "v", How.DONE, True)], result=2)
    assert kinds(entry) == ["twice"]  # the run of a worker that did not have the lease


def test_a_job_done_under_a_lease_that_is_not_the_last():
    """Its worker was fenced off, and was believed; or a job that was done was leased again."""
    leases = [(1, "v"), (2, "w")]
    ends = [(1, "v", How.DONE, True), (2, "w", How.DONE, False)]
    assert kinds(entry_of(*leases, runs=leases, ends=ends, result=1)) == ["twice"]
    ends[0] = (1, "v", How.DONE, None)  # the same, though the answer was lost
    assert kinds(entry_of(*leases, runs=leases, ends=ends, result=1)) == ["twice"]


def test_a_job_that_is_done_twice():
    """Both ends were taken."""
    leases = [(1, "v"), (2, "w")]
    ends = [(1, "v", How.DONE, True), (2, "w", How.DONE, True)]
    assert kinds(entry_of(*leases, runs=leases, ends=ends, result=2)) == ["twice"]


def test_a_job_that_is_done_though_its_end_was_refused():
    """The answer contradicts what became of the job."""
    ends = [(1, "v", How.DONE, False)]
    assert kinds(entry_of((1, "v"), runs=[(1, "v")], ends=ends, result=1)) == ["contradicted"]


def test_a_token_that_falls():
    """A later lease has a higher one."""
    runs = [(2, "v"), (1, "v")]
    ends = [(2, "v", How.DONE, True)]
    assert kinds(entry_of(*sorted(runs), runs=runs, ends=ends, result=2)) == ["token"]
