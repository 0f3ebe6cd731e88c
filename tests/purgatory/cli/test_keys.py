"""`purgatory keys`: key pairs, and the list of clients that a server lets in."""

import pytest

from purgatory.service.auth.key_store import KeyStore


def test_a_key_from_new_to_revoked(run, tmp_path):
    """A key is made, let in, listed and revoked; a repeated command says so."""
    where = ["--data-dir", tmp_path]
    code, out, _ = run("keys", "new", "server", *where)
    assert code == 0
    public = KeyStore(tmp_path / "keys").pair("server").public.decode()
    assert f"server.key: {public}" in out
    run("keys", "new", "shop", *where)
    assert run("keys", "allow", "shop", *where)[:2] == (0, "shop is let in\n")
    assert run("keys", "allow", "shop", *where)[:2] == (0, "shop was let in already\n")
    code, out, _ = run("keys", "list", *where)
    assert "server, shop" in out
    assert out.splitlines()[-1].endswith("  shop")
    assert run("keys", "revoke", "shop", *where)[0] == 0
    assert run("keys", "revoke", "shop", *where)[0] == 1
    assert "let in: none" in run("keys", "list", *where)[1]


def test_a_key_of_elsewhere(run, tmp_path):
    """A public key of another machine is given as text or as a file."""
    other = KeyStore(tmp_path / "other")
    public = other.new("till").public.decode()
    here = ["--keys-dir", tmp_path / "here"]
    assert run("keys", "allow", "till", public, *here)[0] == 0
    path = tmp_path / "other" / "till.key"
    assert run("keys", "allow", "till", path, *here)[1] == "till was let in already\n"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["new", "a/b"], "is no name"),
        (["allow", "x"], "x.key: not found"),
        (["allow", "x", "y"], "y: not found"),
    ],
)
def test_mistakes(run, tmp_path, argv, told):
    """One line and exit code 2."""
    code, _, err = run("keys", *argv, "--keys-dir", tmp_path)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1
