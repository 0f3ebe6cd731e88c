"""AsyncRepeatHandle: a repeat, for asyncio. Used in the thread of the client's event loop."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Protocol

from purgatory.service.client.repeats.repeat_facts import RepeatFacts
from purgatory.service.job_messages import RepeatChanged, Repeats, RepeatState


class AsyncRepeatControl(Protocol):
    """The part of a client that a handle uses; see the verbs of `AsyncClient`."""

    def change_repeat(
        self, name: str, change: str, *, client: str | None = None
    ) -> Awaitable[RepeatChanged]:
        """Pause, resume, delete or run a repeat."""

    def repeats_page(
        self, *, client: str | None = None, name: str | None = None
    ) -> Awaitable[Repeats]:
        """Read repeats."""


class AsyncRepeatHandle(RepeatFacts):
    """A repeat at the server, as `RepeatHandle`: with awaitable methods.

    `next`, `last`, `paused` and `skipped` are what the server has told last: when the handle was
    made, by one of its methods, or by `refresh`.
    """

    def __init__(self, owner: AsyncRepeatControl, state: RepeatState) -> None:
        super().__init__(state)
        self._owner = owner

    @property
    def next(self) -> datetime | None:
        """When its next job is due, an aware datetime; None: paused, or no further time."""
        return self._moment(self._state.next_ms)

    @property
    def last(self) -> datetime | None:
        """When its last job was due, an aware datetime; None: there was none."""
        return self._moment(self._state.last_ms)

    @property
    def paused(self) -> bool:
        """Whether the repeat is paused."""
        return self._state.paused

    @property
    def skipped(self) -> int:
        """How many times had no job, because one was ready, running or retrying."""
        return self._state.skipped

    async def refresh(self) -> bool:
        """Ask the server how the repeat is now; False: there is none any more."""
        page = await self._owner.repeats_page(client=self.client, name=self.name)
        if page.repeats:
            self._state = page.repeats[0]
        return bool(page.repeats)

    async def pause(self) -> bool:
        """Have no more jobs scheduled until `resume`. See `RepeatHandle.pause`."""
        return await self._change("pause")

    async def resume(self) -> bool:
        """End a pause. See `RepeatHandle.resume`."""
        return await self._change("resume")

    async def delete(self) -> bool:
        """Delete the repeat. See `RepeatHandle.delete`."""
        return await self._change("delete")

    async def run(self) -> bool:
        """Have a job run now, too. See `RepeatHandle.run`."""
        return await self._change("run")

    async def _change(self, change: str) -> bool:
        answer = await self._owner.change_repeat(self.name, change, client=self.client)
        if answer.state is not None:
            self._state = answer.state
        return answer.done

    def __repr__(self) -> str:
        return f"<AsyncRepeatHandle {self.name!r} of {self.client!r}>"
