"""Faults by phases of the server: counted as they happen, and empty cells named."""

from collections import Counter

from tests.simulation.fault_phases import PHASES, TRANSACTION, empty_cells
from tests.simulation.simulation import Settings, simulate


def test_each_fault_has_a_phase():
    """One of the server's; a server that is killed at a write is in a commit, or starting."""
    settings = Settings(seconds=20.0, kinds=("server_killed_at_a_write", "client_killed"))
    verdicts = [simulate(seed, settings) for seed in (1, 3)]
    assert not any(verdict.violation for verdict in verdicts)
    phases = sum((verdict.phases for verdict in verdicts), Counter())
    faults = sum((Counter(verdict.faults) for verdict in verdicts), Counter())
    clients = [phases["client_killed", phase] for phase in TRANSACTION]
    assert sum(clients) == faults["client_killed"]
    assert phases["server_killed_at_a_write", "in a commit"]
    assert not phases["server_killed_at_a_write", "at rest"]


def test_empty_cells_are_named():
    """By kind; a kind without any is left out."""
    counts = Counter({("a_b", phase): 1 for phase in PHASES})
    assert empty_cells(counts, ["a_b"]) == []
    del counts["a_b", "gone"], counts["a_b", "handlers run"]
    assert empty_cells(counts, ["a_b"]) == ["a b: gone, handlers run"]
