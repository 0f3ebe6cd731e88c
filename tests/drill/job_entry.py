"""JobEntry: a job of a drill: its leases, its runs, its ends, and which of them agree.

A lease is told by its token, and each later lease has a higher one. If a worker gets a job again
whose handler runs, the handler goes on under the new lease, and `job.token` stays that of the first
one. So the result may come from another handler than the last; the *end* has to be of the last
lease.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from purgatory.service.protocol import How


class Given(NamedTuple):
    """A lease that a worker got from a server."""

    token: int
    worker: str
    server: str
    at: float


class Run(NamedTuple):
    """A handler that ran: the job's token, when it began, when it returned, and its worker."""

    token: int
    began_at: float
    ended_at: float
    worker: str = ""


@dataclass
class End:
    """An end that a worker has told: how, and whether a server took it; None: no answer."""

    token: int
    worker: str
    how: How
    told_at: float
    taken: bool | None = None
    server: str = ""
    answered_at: float = 0.0


class Moment(NamedTuple):
    """What happened at a time."""

    at: float
    text: str


class Violation(NamedTuple):
    """What was promised and not kept: `kind` is one of `KINDS` of the books."""

    kind: str
    text: str


@dataclass
class JobEntry:
    """A job of the load."""

    job_id: str
    acked_at: float | None = None
    given: list[Given] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    state: str = ""
    result: object = None

    def broken(self) -> Iterator[Violation]:
        """Yield what was not kept."""
        name = f"job {self.job_id}"
        if self.acked_at is not None and self.state != "done":
            yield Violation("lost", f"{name} was acknowledged, and is {self.state or 'unknown'}")
        runs = sorted(self.runs, key=lambda run: run.began_at)
        tokens = [run.token for run in runs]
        if tokens != sorted(set(tokens)):
            yield Violation("token", f"{name}: tokens {tokens} in order of their beginning")
        if self.state == "done":
            yield from self._broken_ends(name)

    def _broken_ends(self, name: str) -> Iterator[Violation]:
        done = [end for end in self.ends if end.how is How.DONE and end.taken is not False]
        taken = [end for end in done if end.taken]
        if len({end.token for end in taken}) > 1:
            yield Violation("twice", f"{name} was done under {[end.token for end in taken]}")
        if not done:
            yield Violation("contradicted", f"{name} is done, and each of its ends was refused")
            return
        end = max(taken or done, key=lambda one: one.token)
        later = [lease.token for lease in self.given if lease.token > end.token]
        if later:
            yield Violation("twice", f"{name}: done under {end.token}, and leased under {later}")
        if not any(run[0] == self.result and run.worker == end.worker for run in self.runs):
            yield Violation(
                "twice", f"{name}: done under {end.token} of {end.worker}, result {self.result}"
            )

    @property
    def went_on(self) -> bool:
        """Whether the run that made the result went on under a later lease."""
        return any(
            end.taken and end.how is How.DONE and end.token != self.result for end in self.ends
        )

    @property
    def was_overtaken(self) -> bool:
        """Whether another handler ran between the beginning of that run and the job's end."""
        return isinstance(self.result, int) and any(run.token > self.result for run in self.runs)

    def history(self, others: list[Moment]) -> list[Moment]:
        """Return what happened to it, in order, with what else happened meanwhile."""
        moments = [
            Moment(one.at, f"{one.worker}: leased by {one.server}, token {one.token}")
            for one in self.given
        ]
        for run in self.runs:
            moments.append(Moment(run.began_at, f"{run.worker}: begins, token {run.token}"))
            moments.append(Moment(run.ended_at, f"{run.worker}: returns, token {run.token}"))
        for end in self.ends:
            text = f"{end.worker}: {end.how.name.lower()}, token {end.token}"
            moments.append(Moment(end.told_at, f"{text}, told"))
            if end.taken is not None:
                answer = "taken" if end.taken else "refused"
                moments.append(Moment(end.answered_at, f"{text}, {answer} by {end.server}"))
        first = min((one.at for one in moments), default=0.0)
        last = max((one.at for one in moments), default=0.0)
        moments += [one for one in others if first - 5 <= one.at <= last]
        return sorted(moments)
