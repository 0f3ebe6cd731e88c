"""`purgatory keys` and `tokens`: key pairs, clients that a server lets in, tokens of a gateway."""

import pytest

from purgatory.service.auth.key_store import KeyStore
from purgatory.service.auth.token_store import TokenStore


def test_a_key_from_new_to_revoked(run, tmp_path):
    """A key is made, let in, listed and revoked; a repeated command says so."""
    where = ["--data-dir", tmp_path]
    code, out, _ = run("keys", "new", "server", *where)
    assert code == 0
    public = KeyStore(tmp_path / "keys").pair("server").public.decode()
    assert f"server.key: {public}" in out
    run("keys", "new", "shop", *where)
    assert run("keys", "allow", "shop", *where)[:2] == (
        0,
        "shop is allowed, as any name: may do all\n",
    )
    assert run("keys", "allow", "shop", *where)[1].startswith("shop was allowed already")
    code, out, _ = run("keys", "list", *where)
    assert "server, shop" in out
    assert out.splitlines()[-1].endswith("  shop, as any name: may do all")
    assert run("keys", "revoke", "shop", *where)[0] == 0
    assert run("keys", "revoke", "shop", *where)[0] == 1
    assert "allowed clients: none" in run("keys", "list", *where)[1]


def test_a_directory_of_the_file(run, tmp_path):
    """`--config` names the server's settings, as for other commands; a flag overrides it."""
    file = tmp_path / "purgatory.toml"
    file.write_text(f'keys_dir = "{tmp_path / "secret"}"')
    assert run("tokens", "new", "shop", "--config", file)[0] == 0
    assert [token.access.label for token in TokenStore(tmp_path / "secret").all()] == ["shop"]
    assert "shop: " in run("tokens", "list", "--config", file)[1]
    here = ["--keys-dir", tmp_path / "here"]
    assert run("tokens", "list", "--config", file, *here)[1] == "tokens: none\n"
    assert f"key pairs in {tmp_path / 'secret'}" in run("keys", "list", "--config", file)[1]


def test_a_key_of_elsewhere(run, tmp_path):
    """A public key of another machine is given as text or as a file."""
    other = KeyStore(tmp_path / "other")
    public = other.new("till").public.decode()
    here = ["--keys-dir", tmp_path / "here"]
    assert run("keys", "allow", "till", public, *here)[0] == 0
    path = tmp_path / "other" / "till.key"
    assert run("keys", "allow", "till", path, *here)[1].startswith("till was allowed already")


def test_a_key_that_begins_with_a_dash(run, tmp_path):
    """A key that another tool has made is given after `--`."""
    public = "-" + "a" * 39
    assert run("keys", "allow", "--keys-dir", tmp_path, "till", "--", public)[0] == 0
    assert public in run("keys", "list", "--keys-dir", tmp_path)[1]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--rights", "submit,read"], "names=till rights=submit,read"),
        (["--rights", "complete", "--name", "a,b"], "names=a,b rights=complete"),
        (["--rights", "read", "--name", "*"], "rights=read"),
        (["--name", "till"], "names=till"),
        (["--rights", "administer"], ""),
        (["--rights", "read,administer"], ""),
        ([], ""),
    ],
)
def test_limits(run, tmp_path, options, line):
    """A key without `administer` may use its own name only, unless others are given."""
    said = " ".join(run("keys", "allow", "--help")[1].split())
    assert "(default: any; its own if --rights lack administer)" in said
    keys = KeyStore(tmp_path)
    public = keys.new("till").public.decode()
    code, out, _ = run("keys", "allow", "till", *options, "--keys-dir", tmp_path)
    assert code == 0
    assert (tmp_path / "allowed").read_text().splitlines()[-1] == f"{public} till {line}".rstrip()
    told = out.strip().removeprefix("till is allowed")
    assert told in run("keys", "list", "--keys-dir", tmp_path)[1]


def test_limits_are_kept_and_changed(run, tmp_path):
    """Allowing a client again changes what the options say, and nothing without options."""
    where = ["--keys-dir", tmp_path]
    run("keys", "new", "till", *where)
    run("keys", "allow", "till", "--rights", "read", *where)
    assert "already, as till: read" in run("keys", "allow", "till", *where)[1]
    assert "as till: submit" in run("keys", "allow", "till", "--rights", "submit", *where)[1]
    assert "without options its limits stay" in run("keys", "--help")[1]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["new", "a/b"], "is not a valid name"),
        (["allow", "x"], "x.key: not found; `purgatory keys new NAME` makes a pair"),
        (["allow", "x", "y"], "y: not found"),
        (["allow", "x", "0" * 40, "--rights", "rule,read"], "'rule' is not a right; expected some"),
        (["allow", "x", "0" * 40, "--rights", ""], "'' is not a right"),
        (["allow", "x", "0" * 40, "--name", "a b"], "'a b' cannot be listed"),
    ],
)
def test_mistakes(run, tmp_path, argv, told):
    """One line and exit code 2."""
    code, _, err = run("keys", *argv, "--keys-dir", tmp_path)
    assert code == 2
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("keys", "new", "a"), r"od\x1bd/a.key: "),
        (("keys", "list"), r"key pairs in od\x1bd: none"),
        (("keys", "revoke", "x\x1by"), r"x\x1by was not allowed"),
        (("tokens", "revoke", "x\ny"), r"x\ny: no such token"),
    ],
)
def test_unprintable_characters(run, tmp_path, monkeypatch, argv, told):
    """A name or directory that was typed moves no cursor, and stays on its line."""
    monkeypatch.chdir(tmp_path)
    out = run(*argv, "--keys-dir", "od\x1bd")[1]
    assert told in out
    assert "\x1b" not in out


# purgatory tokens


def test_a_token_from_new_to_revoked(run, tmp_path):
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


def test_bad_rights_of_a_token(run, tmp_path):
    code, _, error = run("tokens", "new", "shop", "--rights", "fly", "--data-dir", tmp_path)
    assert (code, "'fly' is not a right" in error) == (2, True)
