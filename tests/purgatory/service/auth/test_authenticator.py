"""CurveAuthenticator: a server answers the clients on its allow list, and no other."""

import socket
import threading

import pytest
import zmq
from zmq.utils.monitor import recv_monitor_message

from purgatory.service import Client, RequestTimeout
from purgatory.service.auth.access import Access
from purgatory.service.auth.authenticator import CurveAuthenticator, authenticator_for, is_local
from purgatory.service.auth.key_store import KeyPair, KeyStore
from purgatory.service.config import Config
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.errors import ConfigError, KeysError
from purgatory.service.protocol import Hello, Stats
from purgatory.service.server.server import Server
from tests.testing.purgatory_harness import HANG

HANG_MS = int(HANG * 1000)


@pytest.fixture
def keys(tmp_path):
    """Keys of a server, of a client on the allow list, and of one that is not on it."""
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
    """A server in memory that asks for CURVE."""
    config = Config(data_dir=tmp_path, memory=True, bind="tcp://127.0.0.1:0")
    with Server(config, secure=authenticator) as server:
        server.on_reload(authenticator.reload)
        yield server


# What the handshake of a connection comes to.
CONNECTED = zmq.EVENT_HANDSHAKE_SUCCEEDED
REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)


class CurvePeer:
    """A socket with a key pair, or without CURVE, that asks a server for its stats."""

    def __init__(self, server, pair=None, server_key=None):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        if pair is not None:
            self._socket.curve_publickey, self._socket.curve_secretkey = pair
            self._socket.curve_serverkey = server_key
        self._monitor = self._socket.get_monitor_socket(CONNECTED | REFUSED)
        self._socket.connect(server.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.disable_monitor()
        self._context.destroy(0)

    def is_answered(self):
        """Say hello and ask, unless the handshake is refused."""
        assert self._monitor.poll(HANG_MS), "no handshake"
        if recv_monitor_message(self._monitor)["event"] != CONNECTED:
            return False
        self.send(Hello(1, 1, "peer"))
        self.send(Stats(2))
        return self._receive() and self._receive()

    def send(self, request):
        """Send a request."""
        self._socket.send(encode(request))

    def refusal(self):
        """Return the code of the next answer."""
        assert self._socket.poll(HANG_MS), "no answer"
        return decode_answer(self._socket.recv()).code

    def _receive(self):
        assert self._socket.poll(HANG_MS), "no answer"
        return decode_answer(self._socket.recv()).seq > 0


def friend(server, keys):
    """Return a peer that is on the allow list."""
    return CurvePeer(server, keys.pair("friend"), keys.pair("server").public)


class TestPeers:
    def test_a_friend(self, server, keys):
        """A client on the list is answered."""
        with friend(server, keys) as peer:
            assert peer.is_answered()

    def test_a_stranger(self, server, authenticator, keys, caplog):
        """A client not on the list is refused in the handshake, and the log has its key."""
        pair = keys.pair("stranger")
        with CurvePeer(server, pair, keys.pair("server").public) as peer:
            assert not peer.is_answered()
        assert caplog.text.count(pair.public.decode()) == 1
        assert server.stats().messages == 0
        assert authenticator.refused_handshakes >= 1

    def test_no_keys_at_all(self, server, keys):
        """A peer without CURVE is refused in the handshake, while others are served."""
        with CurvePeer(server) as peer, friend(server, keys) as other:
            assert not peer.is_answered()
            assert other.is_answered()
        assert server.stats().connections == 1

    def test_the_wrong_server_key(self, server, keys):
        """A client that expects another server's key does not connect."""
        with CurvePeer(server, keys.pair("friend"), keys.pair("stranger").public) as peer:
            assert not peer.is_answered()

    def test_a_stolen_public_key(self, server, keys):
        """A public key of the list is of no use without its secret key."""
        pair = KeyPair(keys.pair("friend").public, keys.pair("stranger").secret)
        with CurvePeer(server, pair, keys.pair("server").public) as peer:
            assert not peer.is_answered()

    @pytest.mark.parametrize(
        "garbage",
        [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" + bytes(8) + b"\x7f", bytes(100_000)],
        ids=["nothing", "http", "greeting", "zeros"],
    )
    def test_a_raw_tcp_peer(self, server, keys, garbage):
        """Whatever it sends, others are served."""
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
        """A changed list counts from the reload on, for new connections."""
        keys.allow("stranger", keys.pair("stranger").public)
        with CurvePeer(server, keys.pair("stranger"), keys.pair("server").public) as peer:
            assert not peer.is_answered()
        server.reload()
        with CurvePeer(server, keys.pair("stranger"), keys.pair("server").public) as peer:
            assert peer.is_answered()
        keys.revoke("stranger")
        server.reload()
        with CurvePeer(server, keys.pair("stranger"), keys.pair("server").public) as peer:
            assert not peer.is_answered()

    def test_out_while_connected(self, server, keys):
        """A client removed from the list is told to connect again; others are answered."""
        with friend(server, keys) as peer:
            assert peer.is_answered()
            keys.allow("stranger", keys.pair("stranger").public)
            keys.revoke("friend")
            server.reload()
            peer.send(Stats(3))
            assert peer.refusal() == "hello"
            with CurvePeer(server, keys.pair("stranger"), keys.pair("server").public) as other:
                assert other.is_answered()
            assert server.stats().connections <= 1

    def test_a_client_learns_that_it_is_out(self, server, keys):
        """Its calls say that the server refused the connection; it does not wait in silence."""
        pair, server_key = keys.pair("friend"), keys.pair("server").public
        terms = {"server_key": server_key, "public_key": pair.public, "secret_key": pair.secret}
        with Client(server.address, timeout=1, **terms) as client:
            client.stats()
            keys.revoke("friend")
            server.reload()
            with pytest.raises(RequestTimeout, match="the server refused the connection"):
                client.stats()

    def test_a_list_that_cannot_be_read(self, server, keys, caplog):
        """The old list stays, and the log says why."""
        (keys.directory / "allowed").write_text("nonsense\n")
        server.reload()
        assert "allowed, line 1" in caplog.text
        with friend(server, keys) as peer:
            assert peer.is_answered()


class TestLog:
    def test_refused_keys_do_not_fill_it(self, authenticator, caplog):
        """Each refused key is logged once, up to a bound; every refusal is counted."""
        for _ in range(2):
            for number in range(150):
                assert not authenticator.callback("purgatory", f"{number:040}".encode())
        assert len(caplog.records) == 100
        assert authenticator.refused_handshakes == 300
        authenticator.reload()
        authenticator.callback("purgatory", b"0" * 40)
        assert len([r for r in caplog.records if "not on the allow list" in r.message]) == 101


class TestEnd:
    def test_threads(self, keys, tmp_path):
        """The authenticator's thread ends with the server, also if that cannot start."""
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
        """Closing an authenticator that was not started does nothing."""
        before = threading.enumerate()
        CurveAuthenticator(keys).close()
        assert threading.enumerate() == before


class TestPolicy:
    @pytest.mark.parametrize(
        "bind",
        ["tcp://127.0.0.1:7411", "tcp://[::1]:1", "127.8.8.8:0", "localhost:1", "ipc:///tmp/x"],
    )
    def test_local(self, bind):
        """Only this machine can reach these addresses."""
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
        """Every other address counts as reachable by others."""
        assert not is_local(bind)

    @pytest.mark.parametrize(
        "options", [{"bind": "tcp://0.0.0.0:7411"}, {"http_bind": "0.0.0.0:7412"}]
    )
    def test_beyond_loopback(self, tmp_path, options):
        """Such a bind needs keys and a client on the list, unless `insecure` is set."""
        config = Config(data_dir=tmp_path, **options)
        with pytest.raises(ConfigError, match="keys new server"):
            authenticator_for(config)
        keys = KeyStore(config.keys_dir)
        keys.new("server")
        with pytest.raises(ConfigError, match="keys allow"):
            authenticator_for(config)
        keys.allow("shop", keys.new("shop").public)
        assert authenticator_for(config).allowed == {keys.pair("shop").public: Access("shop")}
        assert (
            authenticator_for(Config(data_dir=tmp_path / "other", insecure=True, **options)) is None
        )

    def test_on_loopback(self, tmp_path):
        """On loopback no keys are needed; a server that has some uses them."""
        config = Config(data_dir=tmp_path)
        assert authenticator_for(config) is None
        KeyStore(config.keys_dir).new("server")
        assert authenticator_for(config).allowed == {}

    def test_keys_that_cannot_be_read(self, tmp_path):
        """Unreadable keys are an error, not a server without keys."""
        config = Config(data_dir=tmp_path)
        KeyStore(config.keys_dir).new("server")
        (config.keys_dir / "server.key_secret").chmod(0o644)
        with pytest.raises(KeysError, match="chmod"):
            authenticator_for(config)
