"""Tokens and rights: which callers a gateway has, and what they may do."""

import httpx
import pytest

from purgatory.service import Config, Server
from purgatory.service.auth.access import RIGHTS, Access
from purgatory.service.auth.authenticator import CurveAuthenticator
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.gateway.callers import Connector
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG, free_port


def test_no_token(gateway, shop):
    """Each route asks for one; a revoked one is useless at once."""
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}):
        shop.headers.pop("Authorization", None)
        answer = shop.get("/v1/outcomes", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "token")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    with gateway.program("till") as till:
        assert till.get("/v1/outcomes").status_code == 200
        assert gateway.tokens.revoke("till") == 1
        answer = till.get("/v1/outcomes")
        assert (answer.status_code, answer.json()["code"]) == (401, "token")
        assert answer.json()["message"].startswith("the token is unknown or revoked")


@pytest.mark.parametrize(
    ("right", "allowed"),
    [
        ("submit", {"submit", "batch", "job", "extend", "cancel", "acknowledge"}),
        ("complete", {"complete"}),
        ("read", {"look", "unread"}),
        ("work", {"take", "keep", "finish", "return"}),
        (
            "administer",
            {
                *("submit", "batch", "job", "extend", "cancel", "acknowledge"),
                *("complete", "look", "unread", "take", "keep", "finish", "return"),
            },
        ),
    ],
)
def test_rights(gateway, right, allowed):
    """A token may do what it was given, and no more."""
    with gateway.program("x", [right]) as program:
        answers = {
            "submit": program.post("/v1/operations", json={"keys": ["k"]}),
            "batch": program.post("/v1/batch/operations", json={"operations": []}),
            "job": program.post("/v1/jobs", json={"delay": 60}),
            "extend": program.patch("/v1/operations/none", json={"timeout": 1}),
            "cancel": program.delete("/v1/operations/none"),
            "acknowledge": program.post("/v1/outcomes/acknowledge", json={"numbers": []}),
            "complete": program.post("/v1/keys/k", json={}),
            "look": program.get("/v1/operations/none"),
            "unread": program.get("/v1/outcomes"),
            "take": program.post("/v1/leases", json={"kinds": ["x"], "wait": 0}),
            "keep": program.post("/v1/leases/keep", json={"leases": []}),
            "finish": program.post("/v1/leases/acknowledge", json={"leases": []}),
            "return": program.post("/v1/leases/return", json={"leases": []}),
        }
    refused = {name for name, answer in answers.items() if answer.status_code == 403}
    assert refused == set(answers) - allowed
    assert all(answers[name].json()["code"] == "not-allowed" for name in refused)


def test_tokens_that_cannot_be_read(gateway, shop, caplog):
    """No request is answered, and the answer has no line of the file; the log has it, once."""
    path = gateway.tokens._path
    tokens = path.read_text()
    path.write_text(tokens + "secret nonsense\n")
    for _ in range(3):
        answer = shop.get("/v1/operations")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.json()["message"] == "the gateway cannot read its tokens: its log says why"
    lines = [
        record.message for record in caplog.records if "no token is accepted" in record.message
    ]
    assert len(lines) == 1
    assert "'secret' is not a hash" in lines[0]
    path.write_text(tokens)
    assert shop.get("/v1/operations").status_code == 200


def test_operations_of_others(gateway, shop):
    """They are not known to a token, unless it may administer."""
    shop.post("/v1/operations", json={"keys": ["k"], "op_id": "a"})
    with gateway.program("till") as till:
        assert till.get("/v1/operations/a").status_code == 404
        assert till.delete("/v1/operations/a").status_code == 404
        assert till.patch("/v1/operations/a", json={"timeout": 1}).status_code == 404
    with gateway.program("boss", ["administer"]) as boss:
        assert boss.get("/v1/operations/a").json()["client"] == "shop"
        assert boss.delete("/v1/operations/a").json() == {"done": True}


class SecureServer:
    """A server with keys, and a gateway's key; `allow` sets the names that the key may use."""

    def __init__(self, directory):
        self.keys = KeyStore(directory / "server-keys")
        self.keys.new("server")
        self.keys.new("gateway")
        self.bind = f"tcp://127.0.0.1:{free_port()}"
        self._directory = directory
        self.start()

    def start(self):
        authenticator = CurveAuthenticator(self.keys)
        config = Config(data_dir=self._directory, memory=True, bind=self.bind)
        self.server = Server(config, secure=authenticator)
        self.server.on_reload(authenticator.reload)
        self.server.start()

    def allow(self, *names):
        self.keys.revoke("gateway")
        self.keys.allow(
            "gateway", self.keys.pair("gateway").public, Access("gateway", names, RIGHTS)
        )
        self.server.reload()

    def connector(self, timeout=HANG):
        pair = self.keys.pair("gateway")
        options = {"server_key": self.keys.pair("server").public, "timeout": timeout}
        options |= {"public_key": pair.public, "secret_key": pair.secret}
        return Connector(self.bind, options)


@pytest.fixture
def secure(tmp_path):
    secure = SecureServer(tmp_path)
    yield secure
    secure.server.close()


def test_a_name_that_is_allowed_later(secure, start):
    """The gateway asks the server again; it does not keep a refusal."""
    secure.allow("other")
    gateway = start(secure.bind, connector=secure.connector())
    with gateway.program("shop") as shop:
        for _ in range(2):
            answer = shop.get("/v1/operations")
            assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
        secure.allow("other", "shop")
        assert shop.get("/v1/operations").status_code == 200
        secure.allow("other")
        assert shop.get("/v1/operations").status_code == 403
        secure.allow()
        job = {"delay": 0, "kind": "mail", "job_id": "a"}
        # A refusal may be on its way.
        eventually(lambda: shop.post("/v1/jobs", json=job).status_code == 201)
        leases = shop.post("/v1/leases", json={"kinds": ["mail"], "wait": 5}).json()["jobs"]
        assert len(leases) == 1


def test_readiness_where_the_own_name_is_refused(secure, start):
    """A refusal is an answer of the server, but not for ever."""
    secure.allow("shop")
    gateway = start(secure.bind, connector=secure.connector(0.5))
    for _ in range(2):
        assert httpx.get(f"{gateway.url}/readyz", timeout=HANG).status_code == 200
    secure.server.close()
    secure.server.wait(HANG)
    assert httpx.get(f"{gateway.url}/readyz", timeout=HANG).status_code == 503
    secure.start()
    eventually(lambda: httpx.get(f"{gateway.url}/readyz", timeout=HANG).status_code == 200)
