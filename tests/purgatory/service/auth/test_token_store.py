"""TokenStore: what is kept of tokens, and what they may do."""

import re
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from purgatory.service.auth.access import Access
from purgatory.service.auth.token_store import TokenStore
from purgatory.service.errors import KeysError


@pytest.fixture
def store(tmp_path):
    return TokenStore(tmp_path / "keys")


def test_from_new_to_revoked(store):
    """A token is known until it is revoked, by the client's name or its own id."""
    access = Access("shop", rights=["submit", "read"])
    first, second = store.new(access), store.new(access)
    other = store.new(Access("till"))
    assert store.find(first) == store.find(second) == access
    assert store.find(other) == Access("till")
    assert [token.access.label for token in store.all()] == ["shop", "shop", "till"]
    assert store.revoke(store.all()[0].id) == 1
    assert (store.find(first), store.find(second)) == (None, access)
    assert store.revoke("shop") == 1
    assert store.find(second) is None
    assert store.revoke("shop") == 0
    assert store.find(other) == Access("till")


def test_another_process_changes_them(store, tmp_path):
    """A store sees at once what another one has written."""
    other = TokenStore(tmp_path / "keys")
    assert store.all() == []
    token = other.new(Access("shop"))
    assert store.find(token) == Access("shop")
    other.revoke("shop")
    assert store.find(token) is None
    (tmp_path / "keys" / "tokens").unlink()
    assert store.all() == []


def test_tokens_made_at_the_same_time(tmp_path):
    """All are kept."""
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda n: TokenStore(tmp_path / "keys").new(Access(f"c{n}")), range(16))
        )
    store = TokenStore(tmp_path / "keys")
    assert [store.find(token) for token in made] == [Access(f"c{n}") for n in range(16)]


def test_what_is_kept(store, tmp_path):
    """Hashes, in a file for its owner alone; tokens are long and never the same."""
    token = store.new(Access("shop"))
    assert re.fullmatch(r"ptk_[\w-]{43}", token)
    assert store.new(Access("shop")) != token
    path = tmp_path / "keys" / "tokens"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()


@pytest.mark.parametrize("token", ["", "ptk_", "ä", "\udcff", "x" * 10_000])
def test_what_is_no_token(store, token):
    store.new(Access("shop"))
    assert store.find(token) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "is not a hash"),
        ("0" * 64, "is not a valid name"),
        (f"{'0' * 64} a/b", "is not a valid name"),
        (f"{'0' * 64} shop rights=fly", "'fly' is not a right"),
        (f"{'0' * 64} shop x", "expected names="),
    ],
)
def test_a_damaged_file(store, tmp_path, line, reason):
    """The error names file, line and reason."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "tokens").write_text(f"# head\n{line}\n")
    with pytest.raises(KeysError, match=rf"tokens, line 2: .*{reason}"):
        store.all()


def test_a_bad_name(store):
    with pytest.raises(KeysError, match="'a b' is not a valid name"):
        store.new(Access("a b"))
