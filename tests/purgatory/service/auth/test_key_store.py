"""KeyStore: key pairs that only their owner can read, and the allow list."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from zmq.auth import load_certificate
from zmq.utils import z85

from purgatory.service.auth.access import Access
from purgatory.service.auth.key_store import KeyStore, read_pair, read_public
from purgatory.service.errors import KeysError


@pytest.fixture
def keys(tmp_path):
    return KeyStore(tmp_path / "data" / "keys")


class TestPairs:
    def test_new(self, keys):
        """A pair is written in pyzmq's form, and read back."""
        pair = keys.new("server")
        assert keys.pair("server") == pair
        assert keys.names() == ["server"]
        assert load_certificate(keys.directory / "server.key_secret") == pair
        assert load_certificate(keys.directory / "server.key") == (pair.public, None)

    def test_a_public_key_is_no_option(self, keys, monkeypatch):
        """Where it is an argument of a command, "-" at its beginning would be one."""
        pairs = [(b"-" + b"a" * 39, b"b" * 40), (b"c" * 40, b"d" * 40)]
        monkeypatch.setattr(zmq, "curve_keypair", iter(pairs).__next__)
        assert keys.new("till") == pairs[1]

    def test_only_the_owner_can_read_them(self, keys):
        """Files are 0600, their directory 0700."""
        public = keys.new("shop").public
        keys.allow("shop", public)
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in keys.directory.iterdir()}
        assert modes == {"shop.key": 0o600, "shop.key_secret": 0o600, "allowed": 0o600}
        assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700

    def test_no_pair_is_overwritten(self, keys):
        """A second one of a name is refused, and the first stays."""
        pair = keys.new("shop")
        with pytest.raises(KeysError, match="already"):
            keys.new("shop")
        assert keys.pair("shop") == pair

    def test_a_secret_that_others_may_read(self, keys):
        """It is refused, as ssh does."""
        keys.new("shop")
        path = keys.directory / "shop.key_secret"
        path.chmod(0o640)
        with pytest.raises(KeysError, match="chmod 600"):
            read_pair(path)

    @pytest.mark.parametrize("name", ["", ".x", "a/b", "..", "a b", "x" * 65, "ä", "-x"])
    def test_names(self, keys, name):
        """A name that could leave the directory, or break a line, is refused."""
        with pytest.raises(KeysError, match="is not a valid name"):
            keys.new(name)

    def test_missing(self, keys):
        """The error names the file."""
        with pytest.raises(KeysError, match=r"server.key_secret: No such file"):
            keys.pair("server")

    @pytest.mark.parametrize("text", ["", "curve\n", '    public-key = "short"\n'])
    def test_damaged(self, keys, text):
        """A file without keys has another error than a missing one."""
        keys.new("shop")
        path = keys.directory / "shop.key_secret"
        path.write_text(text)
        with pytest.raises(KeysError, match=r"file of keys|is not a key|no secret key"):
            keys.pair("shop")

    def test_a_public_key_by_itself_or_in_a_file(self, keys):
        """Both forms are accepted."""
        public = keys.new("shop").public
        assert read_public(public.decode()) == public
        assert read_public(str(keys.directory / "shop.key")) == public
        with pytest.raises(KeysError, match="nowhere"):
            read_public("nowhere")
        with pytest.raises(KeysError, match="is not a key"):
            read_public("~" * 40)


class TestAllowed:
    def test_no_list(self, keys):
        """Without a list no client is allowed."""
        assert keys.allowed() == {}

    def test_allow_and_revoke(self, keys):
        """Clients are listed by key and name, until they are revoked."""
        one, two = keys.new("one").public, keys.new("two").public
        assert keys.allow("one", one)
        assert keys.allow("two", two)
        assert not keys.allow("two", two)
        assert keys.allowed() == {one: Access("one"), two: Access("two")}
        assert keys.revoke("one")
        assert not keys.revoke("one")
        assert keys.allowed() == {two: Access("two")}

    def test_one_name_one_key(self, keys):
        """A name has one key, and a key one name."""
        one, two = keys.new("one").public, keys.new("two").public
        keys.allow("one", one)
        with pytest.raises(KeysError, match="already allowed, as 'one'"):
            keys.allow("uno", one)
        with pytest.raises(KeysError, match="revoke it first"):
            keys.allow("one", two)

    @pytest.mark.parametrize("label", ["", "two", "a b"])
    def test_an_access_of_another_label(self, keys, label):
        """It is refused: an empty label would make the list unreadable, another name a client's."""
        one, two = keys.new("one").public, keys.new("two").public
        keys.allow("two", two)
        with pytest.raises(KeysError, match=f"access is of '{label}'; expected 'one'"):
            keys.allow("one", one, Access(label))
        assert keys.allowed() == {two: Access("two")}

    def test_changes_at_the_same_time(self, keys):
        """None is lost."""
        pairs = {f"c{n}": keys.new(f"c{n}").public for n in range(16)}
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda one: KeyStore(keys.directory).allow(*one), pairs.items()))
        assert keys.allowed() == {public: Access(name) for name, public in pairs.items()}
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda name: KeyStore(keys.directory).revoke(name), pairs))
        assert keys.allowed() == {}
        assert not list(keys.directory.glob(".*"))

    def test_revoking_without_a_directory(self, keys):
        """Makes none."""
        assert not keys.revoke("one")
        assert not keys.directory.exists()

    @given(st.lists(st.binary(min_size=32, max_size=32), unique=True, max_size=5))
    def test_any_key(self, tmp_path_factory, raw):
        """Every key there can be is read back, whatever characters Z85 gives it."""
        keys = KeyStore(tmp_path_factory.mktemp("keys"))
        wanted = {z85.encode(key): f"c{n}" for n, key in enumerate(raw)}
        for public, name in wanted.items():
            keys.allow(name, public)
        assert keys.allowed() == {public: Access(name) for public, name in wanted.items()}

    def test_limits(self, keys):
        """Names and rights are read back, and kept until others are given."""
        public = keys.new("shop").public
        limited = Access("shop", ["shop", "web@host"], ["read", "submit"])
        assert keys.allow("shop", public, limited)
        assert not keys.allow("shop", public, limited)
        assert not keys.allow("shop", public)
        assert keys.allowed() == {public: limited}
        line = (keys.directory / "allowed").read_text().splitlines()[-1]
        assert line == f"{public.decode()} shop names=shop,web@host rights=submit,read"
        assert keys.allow("shop", public, Access("shop"))
        assert keys.allowed() == {public: Access("shop")}

    def test_a_list_of_the_version_before(self, keys):
        """A key and a name let a client in with all rights, as before."""
        public = keys.new("shop").public
        (keys.directory / "allowed").write_text(f"# old\n{public.decode()} shop\n")
        assert keys.allowed() == {public: Access("shop")}

    @pytest.mark.parametrize(
        "line",
        ["nonsense", "0" * 40, "00000" * 7 + "#0000 a", "0" * 40 + " a b", "~" * 40 + " a",
         "0" * 40 + " a rights=", "0" * 40 + " a rights=rule", "0" * 40 + " a names=",
         "0" * 40 + " a names=b names=c", "0" * 40 + " a right=read"],
    )  # fmt: skip
    def test_a_bad_line(self, keys, line):
        """A malformed line is an error that names it: no client is added or left out silently."""
        keys.new("shop")
        (keys.directory / "allowed").write_text(f"# comment\n\n{line}\n")
        with pytest.raises(KeysError, match="allowed, line 3"):
            keys.allowed()
