"""CurveAuthenticator: who gets an answer from a server, and who does not."""

import socket
import threading

import pytest
import zmq

from purgatory.service.auth.authenticator import CurveAuthenticator, authenticator_for, is_local
from purgatory.service.auth.key_store import KeyPair, KeysError, KeyStore
from purgatory.service.config import Config
from purgatory.service.errors import ConfigError
from purgatory.service.protocol import Hello, Stats, decode_answer, encode
from purgatory.service.server.server import Server
from tests.testing.purgatory_harness import HANG

# How long silence must last to count as no answer; an answer comes within a few milliseconds.
SILENCE_MS = 300


@pytest.fixture
def keys(tmp_path):
    """A server's key, one client that is let in, one that is not."""
    keys = KeyStore(tmp_path / "keys")
    for name in ("server", "friend", "stranger"):
        keys.new(name)
    keys.allow("friend", keys.pair("friend").public)
    return keys


@pytest.fixture
def authenticator(keys):
    return CurveAuthenticator(keys)


@pytest.fixture
def server(keys, authenticator, tmp_path):
    """A guarded server in memory."""
    config = Config(data_dir=tmp_path, memory=True, bind="tcp://127.0.0.1:0")
    with Server(config, secure=authenticator) as server:
        server.on_reload(authenticator.reload)
        yield server


class Peer:
    """A socket that asks a server for its figures."""

    def __init__(self, server, pair=None, server_key=None):
        self._wait_ms = SILENCE_MS
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.sndtimeo = SILENCE_MS
        if pair is not None:
            self._socket.curve_publickey, self._socket.curve_secretkey = pair
            self._socket.curve_serverkey = server_key
        self._socket.connect(server.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._context.destroy(0)

    def is_answered(self):
        """Whether it is let in to say hello, and told the figures."""
        try:
            for request in (Hello(1, 1, "peer"), Stats(2)):
                self._socket.send(encode(request))
        except zmq.Again:  # thrown out: there is no connection to send on
            return False
        return self._hears() and self._hears()

    def asks_again(self):
        """Whether it is answered, at once, on the connection that it has."""
        self._wait_ms = SILENCE_MS
        self._socket.send(encode(Stats(3)))
        return self._hears()

    def be_patient(self):
        """Wait for an answer that has to come."""
        self._wait_ms = self._socket.sndtimeo = int(HANG * 1000)

    def _hears(self):
        if not self._socket.poll(self._wait_ms):
            return False
        return decode_answer(self._socket.recv()).seq > 0


def friend(server, keys):
    """A peer that is let in; an answer that never comes would be a failure, so it waits long."""
    peer = Peer(server, keys.pair("friend"), keys.pair("server").public)
    peer.be_patient()
    return peer


class TestPeers:
    def test_a_friend(self, server, keys):
        """Is answered."""
        with friend(server, keys) as peer:
            assert peer.is_answered()

    def test_a_stranger(self, server, authenticator, keys, caplog):
        """Has keys, but is not on the list: not one command is answered, and the log says who."""
        pair = keys.pair("stranger")
        with Peer(server, pair, keys.pair("server").public) as peer:
            assert not peer.is_answered()
        assert caplog.text.count(pair.public.decode()) == 1
        assert server.stats().messages == 0
        assert authenticator.refused_handshakes >= 1

    def test_no_keys_at_all(self, server, keys):
        """A peer that speaks no CURVE is not answered, and others are meanwhile."""
        with Peer(server) as peer, friend(server, keys) as other:
            assert not peer.is_answered()
            assert other.is_answered()
        assert server.stats().connections == 1

    def test_the_wrong_server_key(self, server, keys):
        """Nobody can pose as the server: a client that expects another key gets nothing."""
        with Peer(server, keys.pair("friend"), keys.pair("stranger").public) as peer:
            assert not peer.is_answered()

    def test_a_stolen_public_key(self, server, keys):
        """A public key of the list is of no use without its secret one."""
        pair = KeyPair(keys.pair("friend").public, keys.pair("stranger").secret)
        with Peer(server, pair, keys.pair("server").public) as peer:
            assert not peer.is_answered()

    @pytest.mark.parametrize(
        "garbage",
        [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" + bytes(8) + b"\x7f", bytes(100_000)],
        ids=["nothing", "http", "greeting", "zeros"],
    )
    def test_a_raw_tcp_peer(self, server, keys, garbage):
        """Whatever it sends, others are served meanwhile and after."""
        host, port = server.address.removeprefix("tcp://").split(":")
        with (
            socket.create_connection((host, int(port)), HANG) as raw,
            friend(server, keys) as peer,
        ):
            try:
                raw.sendall(garbage)
            except ConnectionError:  # thrown out already
                pass
            assert peer.is_answered()
        assert server.stats().connections == 1


class TestReload:
    def test_let_in_and_out(self, server, keys):
        """The list counts from the reload on, for every new connection."""
        keys.allow("stranger", keys.pair("stranger").public)
        with Peer(server, keys.pair("stranger"), keys.pair("server").public) as peer:
            assert not peer.is_answered()
        server.reload()
        with Peer(server, keys.pair("stranger"), keys.pair("server").public) as peer:
            peer.be_patient()
            assert peer.is_answered()
        keys.revoke("stranger")
        server.reload()
        with Peer(server, keys.pair("stranger"), keys.pair("server").public) as peer:
            assert not peer.is_answered()

    def test_out_while_connected(self, server, keys):
        """Who is taken off the list is not answered on a connection that it has; others are."""
        with friend(server, keys) as peer, Peer(server) as _:
            assert peer.is_answered()
            keys.allow("stranger", keys.pair("stranger").public)
            keys.revoke("friend")
            server.reload()
            while server.stats().connections:
                pass
            assert not peer.asks_again()
            with Peer(server, keys.pair("stranger"), keys.pair("server").public) as other:
                other.be_patient()
                assert other.is_answered()

    def test_a_list_that_cannot_be_read(self, server, keys, caplog):
        """The old one stays, and the log says why."""
        (keys.directory / "allowed").write_text("nonsense\n")
        server.reload()
        assert "allowed, line 1" in caplog.text
        with friend(server, keys) as peer:
            assert peer.is_answered()


class TestLog:
    def test_strangers_do_not_fill_it(self, authenticator, caplog):
        """Each key is told once, some of them in all; every refusal is counted."""
        for _ in range(2):
            for number in range(150):
                assert not authenticator.callback("purgatory", f"{number:040}".encode())
        assert len(caplog.records) == 100
        assert authenticator.refused_handshakes == 300
        authenticator.reload()
        authenticator.callback("purgatory", b"0" * 40)
        assert len([r for r in caplog.records if "not let in" in r.message]) == 101


class TestEnd:
    def test_threads(self, keys, tmp_path):
        """The authenticator's thread ends with the server, also with one that cannot start."""
        before = set(threading.enumerate())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            config = Config(data_dir=tmp_path, memory=True, bind=address)
            with pytest.raises(Exception, match="cannot listen"):
                Server(config, secure=CurveAuthenticator(keys)).start()
        assert set(threading.enumerate()) <= before
        config = Config(data_dir=tmp_path, memory=True, bind="tcp://127.0.0.1:0")
        with Server(config, secure=CurveAuthenticator(keys)):
            assert "purgatory-zap" in [thread.name for thread in threading.enumerate()]
        assert set(threading.enumerate()) <= before

    def test_close_without_start(self, keys):
        """Nothing happens."""
        CurveAuthenticator(keys).close()


class TestPolicy:
    @pytest.mark.parametrize(
        "bind",
        ["tcp://127.0.0.1:7411", "tcp://[::1]:1", "127.8.8.8:0", "localhost:1", "ipc:///tmp/x"],
    )
    def test_local(self, bind):
        """Addresses that only this machine reaches."""
        assert is_local(bind)

    @pytest.mark.parametrize(
        "bind",
        [
            "tcp://0.0.0.0:7411",
            "tcp://*:7411",
            "tcp://eth0:1",
            "tcp://10.0.0.7:1",
            "[::]:1",
            "localhost.example.org:1",
            "127.0.0.1.example.org:1",
            "udp://127.0.0.1:1",
            ":1",
            "",
        ],
    )
    def test_not_local(self, bind):
        """Everything else counts as reachable."""
        assert not is_local(bind)

    @pytest.mark.parametrize(
        "options", [{"bind": "tcp://0.0.0.0:7411"}, {"http_bind": "0.0.0.0:7412"}]
    )
    def test_beyond_loopback(self, tmp_path, options):
        """Refused without keys, and without anybody on the list, unless it is insisted on."""
        config = Config(data_dir=tmp_path, **options)
        with pytest.raises(ConfigError, match="keys new server"):
            authenticator_for(config)
        keys = KeyStore(config.keys_dir)
        keys.new("server")
        with pytest.raises(ConfigError, match="keys allow"):
            authenticator_for(config)
        keys.allow("shop", keys.new("shop").public)
        assert authenticator_for(config).allowed == {keys.pair("shop").public: "shop"}
        assert (
            authenticator_for(Config(data_dir=tmp_path / "other", insecure=True, **options)) is None
        )

    def test_on_loopback(self, tmp_path):
        """No keys are needed; a server that has some uses them."""
        config = Config(data_dir=tmp_path)
        assert authenticator_for(config) is None
        KeyStore(config.keys_dir).new("server")
        assert authenticator_for(config).allowed == {}

    def test_keys_that_cannot_be_read(self, tmp_path):
        """Are an error, not a server without keys."""
        config = Config(data_dir=tmp_path)
        KeyStore(config.keys_dir).new("server")
        (config.keys_dir / "server.key_secret").chmod(0o644)
        with pytest.raises(KeysError, match="chmod"):
            authenticator_for(config)
