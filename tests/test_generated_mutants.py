"""Generated mutants: which faults are made, how a sample is drawn, and how one is tried."""

import textwrap

import pytest

from tests.mutants.generated.__main__ import ROOT
from tests.mutants.generated.mutators import faults_of, mutate
from tests.mutants.generated.sample import STRATA, Candidate, draw, places_of
from tests.mutants.generated.trial import Bench


def changes_of(source):
    """Return the changed lines, by kind of the fault."""
    source = textwrap.dedent(source)
    return [(fault.kind, mutate(source, fault)[1]) for fault in faults_of(source)]


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("a = b <= c", ("comparison", "a = b <= c  ->  a = b < c")),
        ("a = b is None", ("comparison", "a = b is None  ->  a = b is not None")),
        ("a = 7", ("constant", "a = 7  ->  a = 8")),
        ("a = True", ("constant", "a = True  ->  a = False")),
        ("a = b and c", ("negation", "a = b and c  ->  a = b or c")),
        ("a = b if c else d", ("negation", "a = b if c else d  ->  a = b if not c else d")),
        ("a = b + c", ("operator", "a = b + c  ->  a = b - c")),
        ("f(a, b, c)", ("swapped arguments", "f(a, b, c)  ->  f(b, a, c)")),
        ("a.b = c", ("deleted statement", "a.b = c  ->  pass")),
    ],
)
def test_faults(source, change):
    """Each kind."""
    assert change in changes_of(source)


def test_what_no_test_should_notice_is_left_out():
    """Annotations, docstrings, logs, texts for people."""
    assert not changes_of(
        '''
        """A module."""
        import a
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            b = 1
        __slots__ = ("c", "d")
        def e(f: g[1, 2]) -> h[3]:
            """A function."""
            log.info("it is %s of %s", f, i)
            assert f > 1
        class J:
            def __repr__(self):
                return k + 1
        '''
    )


def test_each_fault_changes_the_source():
    """Of a module of the tree."""
    source = (ROOT / "timingwheel/lanes.py").read_text(encoding="utf-8")
    assert all(mutate(source, fault)[1] for fault in faults_of(source))


def test_a_sample_is_a_function_of_its_seed():
    """As many of each stratum."""
    chosen = draw(ROOT, 4, 1, ["mq", "spark"])
    assert [one.stratum for one in chosen].count("mq") == 2
    names = [(one.file, one.fault.place, one.fault.kind) for one in chosen]
    again = draw(ROOT, 4, 1, ["mq", "spark"])
    assert names == [(one.file, one.fault.place, one.fault.kind) for one in again]
    assert chosen != draw(ROOT, 4, 2, ["mq", "spark"])


def test_each_stratum_has_modules():
    """None is left out because a folder has another name now."""
    for stratum in STRATA:
        assert draw(ROOT, 1, 1, [stratum])


def test_the_tests_of_a_module():
    """The file that mirrors it, and those of its folder."""
    yqueue = {"tests": "tests/mq/queues/test_yqueue.py", "room": "tests/mq/queues"}
    assert places_of(ROOT, "mq/queues/yqueue.py") == yqueue
    state = "purgatory/spark/stream/shard_state.py"
    assert places_of(ROOT, state) == {"room": "tests/purgatory/spark/stream"}


def test_a_fault_is_found_by_the_tests_of_its_module(tmp_path):
    """And taken out of the copy again."""
    bench = Bench(ROOT, tmp_path, worlds=0)
    file = "mq/queues/yqueue.py"
    source = (ROOT / file).read_text(encoding="utf-8")
    fault = next(one for one in faults_of(source) if one.kind == "comparison")
    verdict = bench.try_fault(Candidate("mq", file, fault))
    assert verdict.found_by == "tests"
    assert (tmp_path / file).read_text(encoding="utf-8") == source


def test_a_failure_may_print_any_bytes(monkeypatch, tmp_path):
    """The last line is why, in whatever encoding it is."""
    monkeypatch.setattr("tests.mutants.generated.trial._COPIED", ())
    bench = Bench(ROOT, tmp_path, worlds=0)
    program = r"import sys; sys.stdout.buffer.write(b'first\n\xe9\n'); sys.exit(1)"
    assert bench._run(["-c", program], 60) == "\ufffd"
