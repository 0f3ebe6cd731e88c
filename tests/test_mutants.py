"""The list of mutants fits the source: so that none is left out unseen."""

import pytest

from tests.mutants.__main__ import ALL, ROOT, find
from tests.mutants.mutants import MUTANTS


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.what)
def test_a_mutant_has_its_place(mutant):
    """What it replaces stands once in the file."""
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1


def test_each_is_another():
    """There are enough, and no two are the same."""
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) >= 30


def test_a_mutant_is_found_in_its_copy():
    """The copy has all that the simulation imports: one that cannot start finds nothing."""
    what = "the clock of a server jumps with the wall clock"
    found = find(next(mutant for mutant in MUTANTS if mutant.what == what), first=0)
    assert "early" in found.why
    assert found.seed >= 0
