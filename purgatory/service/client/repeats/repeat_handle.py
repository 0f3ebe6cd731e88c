"""RepeatHandle, AsyncRepeatHandle: a repeat in a program. `RepeatHandle` is for any thread."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from purgatory.service.job_messages import RepeatChanged, Repeats, RepeatState, moment_of
from purgatory.service.platform import Platform

# What verbs return.
_Done_co = TypeVar("_Done_co", covariant=True)
_Changed_co = TypeVar("_Changed_co", covariant=True)
_Found_co = TypeVar("_Found_co", covariant=True)
_T = TypeVar("_T")
_Later: TypeAlias = Coroutine[Any, Any, _T]


class RepeatFacts:
    """A repeat as the server has described it last; see `Client.repeat`."""

    def __init__(self, state: RepeatState) -> None:
        self._state: RepeatState = state

    @property
    def name(self) -> str:
        """Also a tag of its jobs."""
        return self._state.repeat.name

    @property
    def client(self) -> str:
        """The workers of this client get the jobs."""
        return self._state.client

    @property
    def cron(self) -> str | None:
        """None: at intervals."""
        return self._state.repeat.cron

    @property
    def every(self) -> float | None:
        """Seconds; None: by the calendar."""
        every_ms = self._state.repeat.every_ms
        return None if every_ms is None else every_ms / 1000

    @property
    def tz(self) -> str:
        """The time zone of `cron`."""
        return self._state.repeat.tz

    @property
    def kind(self) -> str:
        """The kind of its jobs."""
        return self._state.repeat.kind

    @property
    def payload(self) -> Any:
        """The payload of its jobs."""
        return self._state.repeat.payload

    @property
    def overlap(self) -> str:
        """Either "skip" or "allow"."""
        return self._state.repeat.overlap

    @property
    def missed(self) -> str:
        """Either "one", "none" or "all"."""
        return self._state.repeat.missed

    @property
    def jitter(self) -> float:
        """The longest random delay of a run, in seconds."""
        return self._state.repeat.jitter_ms / 1000

    def _moment(self, unix_ms: int | None) -> datetime | None:
        if unix_ms is None:
            return None
        moment = moment_of(unix_ms)
        try:
            return moment.astimezone(ZoneInfo(self.tz))
        except (KeyError, ValueError, OSError):  # this machine does not know the zone
            return moment

    @property
    def next(self) -> datetime | None:
        """When the next job is due, aware; None: paused, or no further time."""
        return self._moment(self._latest().next_ms)

    @property
    def last(self) -> datetime | None:
        """The time of the last job, without its jitter, aware; None: no job yet."""
        return self._moment(self._latest().last_ms)

    @property
    def paused(self) -> bool:
        """Whether the repeat is paused."""
        return self._latest().paused

    @property
    def skipped(self) -> int:
        """How many times had no job because of `overlap`."""
        return self._latest().skipped

    def _latest(self) -> RepeatState:
        return self._state


class RepeatVerbs(RepeatFacts, ABC, Generic[_Done_co]):
    """The base of both handles, but for the types."""

    def pause(self) -> _Done_co:
        """Schedule no more jobs until `resume`; False: deleted."""
        return self._change("pause")

    def resume(self) -> _Done_co:
        """End a pause; see `missed`. False: deleted."""
        return self._change("resume")

    def delete(self) -> _Done_co:
        """Delete the repeat, but not its scheduled jobs; False: already deleted."""
        return self._change("delete")

    def run(self) -> _Done_co:
        """Have a job run now, even while paused; the rhythm stays.

        False: deleted, or `overlap` forbids the run.
        """
        return self._change("run")

    @abstractmethod
    def _change(self, change: str) -> _Done_co:
        """Ask the server."""

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to a client")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.client!r}>"


# A state is fresh for so many seconds.
_FRESH_S: Final = 0.1


class RepeatControl(Protocol[_Changed_co, _Found_co]):
    """The part of a client that a handle uses."""

    def change_repeat(self, name: str, change: str, *, client: str | None = None) -> _Changed_co:
        """See `Client.change_repeat`."""

    def repeats_page(self, *, client: str | None = None, name: str | None = None) -> _Found_co:
        """See `Client.repeats_page`."""


class RepeatOwner(RepeatControl[RepeatChanged, Repeats], Protocol):
    """The part of a `Client` that a `RepeatHandle` uses."""

    platform: Platform


class RepeatHandle(RepeatVerbs[bool]):
    """A repeat at the server: what `Client.repeat` returns.

    `next`, `last`, `paused` and `skipped` ask the server, unless it answered in the last tenth of a
    second, and raise the errors of the client's methods. After `delete` they stay unchanged.
    """

    def __init__(self, owner: RepeatOwner, state: RepeatState) -> None:
        super().__init__(state)
        self._owner = owner
        self._monotonic = owner.platform.monotonic
        self._read_s = self._monotonic()
        self._is_deleted = False

    def _change(self, change: str) -> bool:
        answer = self._owner.change_repeat(self.name, change, client=self.client)
        self._note(answer.state)
        return answer.done

    def _latest(self) -> RepeatState:
        if not self._is_deleted and self._monotonic() - self._read_s > _FRESH_S:
            found = self._owner.repeats_page(client=self.client, name=self.name).repeats
            self._note(found[0] if found else None)
        return self._state

    def _note(self, state: RepeatState | None) -> None:
        self._read_s = self._monotonic()
        self._is_deleted = state is None
        if state is not None:
            self._state = state


class AsyncRepeatHandle(RepeatVerbs[_Later[bool]]):
    """Like `RepeatHandle`, with awaitable methods, for the event loop's thread.

    `next`, `last`, `paused` and `skipped` are of the server's last answer to the handle; see
    `refresh`.
    """

    def __init__(
        self, owner: RepeatControl[_Later[RepeatChanged], _Later[Repeats]], state: RepeatState
    ) -> None:
        super().__init__(state)
        self._owner = owner

    async def refresh(self) -> bool:
        """Read the repeat's state; False: deleted."""
        page = await self._owner.repeats_page(client=self.client, name=self.name)
        if page.repeats:
            self._state = page.repeats[0]
        return bool(page.repeats)

    async def _change(self, change: str) -> bool:
        answer = await self._owner.change_repeat(self.name, change, client=self.client)
        if answer.state is not None:
            self._state = answer.state
        return answer.done
