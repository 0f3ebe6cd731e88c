"""RepeatHandle: a declared or found repeat, in a program. Any thread."""

import time
from datetime import datetime
from typing import Final, Protocol

from purgatory.service.client.repeats.repeat_facts import RepeatFacts
from purgatory.service.job_messages import RepeatChanged, Repeats, RepeatState

# What was read so many seconds ago is not read again.
_FRESH_S: Final = 0.1


class RepeatControl(Protocol):
    """The part of a client that a handle uses; see the verbs of `Client`."""

    def change_repeat(self, name: str, change: str, *, client: str | None = None) -> RepeatChanged:
        """Pause, resume, delete or run a repeat."""

    def repeats_page(self, *, client: str | None = None, name: str | None = None) -> Repeats:
        """Read repeats."""


class RepeatHandle(RepeatFacts):
    """A repeat at the server: what `Client.repeat` returns, and `Client.repeats` a list of.

    `next`, `last`, `paused` and `skipped` ask the server, unless it answered in the last tenth of a
    second; they raise the errors of the client's methods. After `delete` they stay unchanged.
    """

    def __init__(self, owner: RepeatControl, state: RepeatState) -> None:
        super().__init__(state)
        self._owner = owner
        self._read_s = time.monotonic()
        self._is_deleted = False

    @property
    def next(self) -> datetime | None:
        """When its next job is due, an aware datetime; None: paused, or no further time."""
        return self._moment(self._latest().next_ms)

    @property
    def last(self) -> datetime | None:
        """When its last job was due, an aware datetime; None: there was none."""
        return self._moment(self._latest().last_ms)

    @property
    def paused(self) -> bool:
        """Whether the repeat is paused."""
        return self._latest().paused

    @property
    def skipped(self) -> int:
        """How many times had no job, because one was ready, running or retrying."""
        return self._latest().skipped

    def pause(self) -> bool:
        """Have no more jobs scheduled until `resume`; False: there is no such repeat any more."""
        return self._change("pause")

    def resume(self) -> bool:
        """End a pause; `missed` decides about the times passed."""
        return self._change("resume")

    def delete(self) -> bool:
        """Delete the repeat; its scheduled jobs stay. False: already deleted."""
        return self._change("delete")

    def run(self) -> bool:
        """Have a job run now, too; the rhythm stays, even while paused.

        False: a job is ready, running or retrying, and `overlap` is "skip"; or there is no such
        repeat any more.
        """
        return self._change("run")

    def _change(self, change: str) -> bool:
        answer = self._owner.change_repeat(self.name, change, client=self.client)
        self._note(answer.state)
        return answer.done

    def _latest(self) -> RepeatState:
        if not self._is_deleted and time.monotonic() - self._read_s > _FRESH_S:
            found = self._owner.repeats_page(client=self.client, name=self.name).repeats
            self._note(found[0] if found else None)
        return self._state

    def _note(self, state: RepeatState | None) -> None:
        self._read_s = time.monotonic()
        self._is_deleted = state is None
        if state is not None:
            self._state = state

    def __repr__(self) -> str:
        return f"<RepeatHandle {self.name!r} of {self.client!r}>"
