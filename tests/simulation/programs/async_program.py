"""AsyncProgram: a client process like others, of an `AsyncClient`: it acts in an event loop."""

from typing import Any

from tests.simulation.programs.async_calls import AsyncCalls
from tests.simulation.programs.program import Program


class AsyncProgram(Program):
    """The client `name`, which is an `AsyncClient`."""

    def _connect(self) -> Any:
        return AsyncCalls(self._process, self.name, self._on_outcome)

    def _act(self, run: int) -> None:
        self._client.post(self._act_in_loop, run)

    def _act_in_loop(self, run: int) -> None:
        super()._act(run)
