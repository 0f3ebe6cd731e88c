"""`purgatory tokens`: made, listed, revoked."""

from purgatory.service.auth.token_store import TokenStore


def test_from_new_to_revoked(run, tmp_path):
    """The token is printed once; the list has its id and what it may do."""
    where = ["--data-dir", tmp_path]
    code, out, _ = run("tokens", "new", "shop", "--rights", "submit,read", *where)
    assert code == 0
    access = TokenStore(tmp_path / "keys").find(out.strip())
    assert (access.label, access.rights) == ("shop", ("submit", "read"))
    assert "  shop: submit, read\n" in run("tokens", "list", *where)[1]
    assert run("tokens", "revoke", "shop", *where)[:2] == (0, "shop: 1 revoked\n")
    assert run("tokens", "revoke", "shop", *where)[:2] == (1, "shop: no such token\n")
    assert run("tokens", "list", *where)[1] == "tokens: none\n"


def test_bad_rights(run, tmp_path):
    code, _, error = run("tokens", "new", "shop", "--rights", "fly", "--data-dir", tmp_path)
    assert (code, "'fly' is no right" in error) == (2, True)
