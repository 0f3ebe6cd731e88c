"""WaitingMoves: requests to reschedule jobs that wait for a worker's answer.

A handler may have begun before the server hears of it. So the server asks the worker for the job;
when the job is back, it is rescheduled, but not once its handler has begun. A client that gets no
answer asks again. Store thread alone.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from purgatory.service.errors import ServerBusy
from purgatory.service.server.commands import ClientRequest

#: Waiting requests, at most.
MOST: Final = 1000


class WaitingMoves:
    """The waiting requests, in order of arrival."""

    def __init__(self) -> None:
        self.commands: list[ClientRequest] = []
        #: Of the open transaction.
        self.new: list[ClientRequest] = []

    def add(self, command: ClientRequest) -> None:
        """Let a request wait. Raises ServerBusy."""
        self._check_room()
        self.new.append(command)

    def _check_room(self) -> None:
        if len(self.commands) + len(self.new) >= MOST:
            raise ServerBusy(f"{MOST} requests to reschedule jobs wait; expected fewer")

    def join(self, command: ClientRequest) -> bool:
        """Let a request wait with the same one, if that waits since an earlier transaction.

        No failed commit refuses it then. Raises ServerBusy.
        """
        name = command.client, command.session, command.request.seq
        for waiting in self.commands:
            if name == (waiting.client, waiting.session, waiting.request.seq):
                self._check_room()
                self.commands.append(replace(command, request=waiting.request))
                return True
        return False

    def take(self, is_decided: Callable[[ClientRequest], bool]) -> list[ClientRequest]:
        """Remove and return the decided requests, new ones too.

        A worker's answer may be in the request's own transaction: nothing wakes the server later.
        """
        decided: list[ClientRequest] = []
        for waiting in (self.commands, self.new):
            left: list[ClientRequest] = []
            for command in waiting:
                (decided if is_decided(command) else left).append(command)
            waiting[:] = left
        return decided

    def publish(self) -> None:
        """Keep the open transaction's requests."""
        self.commands += self.new
        self.new = []

    def roll_back(self) -> None:
        """Forget the open transaction's requests."""
        self.new = []
