"""AsyncProgram: clients of asyncio in worlds of some seeds."""

import pytest

from tests.simulation.programs.async_program import AsyncProgram
from tests.simulation.programs.workload import ASYNC_SEEDS
from tests.simulation.simulation import Settings, Simulation, simulate


def async_programs(seed):
    """Return which of a world's clients are of asyncio."""
    simulation = Simulation(seed, Settings())
    found = [isinstance(program, AsyncProgram) for program in simulation.programs]
    simulation.discard()
    return found


def test_which_worlds_have_some():
    """Every second client in the worlds of some seeds; the others are as they were."""
    for seed in range(16):
        found = async_programs(seed)
        assert any(found) == (seed in ASYNC_SEEDS)
        if any(found):
            clients = found[:-1] if seed % 2 else found  # the last one schedules jobs
            assert clients == [n % 2 == 0 for n in range(len(clients))]


# Seeds 12 and 13 are among those of `tests/simulation/test_simulation.py`.
@pytest.mark.parametrize("seed", [28, 29, 44, 45])
def test_every_promise_is_kept(seed):
    """Whatever goes wrong in the world of the seed."""
    verdict = simulate(seed)
    assert verdict.violation == ""
    assert verdict.operations > 0


def test_outcomes_come_to_coroutines():
    """Their programs are told of operations that they submitted, as others are."""
    verdict = simulate(28, Settings(seconds=20.0, kinds=()), with_history=True)
    assert verdict.violation == ""
    told = [line for line in verdict.history if "  told: client-0-" in line]
    assert len(told) > 5
