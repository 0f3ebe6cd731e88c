"""`purgatory jobs pause`, `resume` and `limit`."""

import pytest


def test_pause(run, client):
    """Kinds are paused and resumed."""
    assert run("pause", "mail", "print") == (0, "mail: paused\nprint: paused\n", "")
    assert {each.kind for each in client.limits() if each.paused} == {"mail", "print"}
    assert run("resume", "mail") == (0, "mail: resumed\n", "")
    assert {each.kind for each in client.limits() if each.paused} == {"print"}


def test_limit(run, rows, client):
    """Limits are set, listed and taken away."""
    code, out, err = run("limit", "mail", "--running", "10", "--per-second", "2.5")
    assert (code, err) == (0, "")
    assert all(words in out for words in ("mail", "10", "2.5", "1 limited kind"))
    [row] = rows("limit")
    assert (row["kind"], row["running"], row["per_second"]) == ("mail", 10, 2.5)
    run("limit", "mail", "--running", "0")
    [limit] = client.limits()
    assert (limit.running, limit.per_second) == (None, 2.5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mail",), "come together"),
        (("--running", "5"), "come together"),
        (("mail", "--running", "-1"), "at least 0"),
        (("mail", "--per-second", "fast"), "'fast'; expected a number"),
        (("mail", "--per-second", "nan"), "expected a finite number of 0 or more"),
    ],
)
def test_bad_limits(run, arguments, words):
    """They are named in one line."""
    code, _, err = run("limit", *arguments)
    assert code == 2
    assert words in err
