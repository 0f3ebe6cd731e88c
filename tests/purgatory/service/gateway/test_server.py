"""Gateway: beyond loopback it needs TLS; it goes on without its server."""

import pytest

from purgatory.service.errors import ConfigError
from purgatory.service.gateway.callers import Connector
from purgatory.service.gateway.server import TLSFiles
from tests.testing.eventually import eventually


def test_beyond_loopback(start, tmp_path):
    """There must be TLS, whose files must be there."""
    with pytest.raises(ConfigError, match=r"others could read the tokens"):
        start(bind="0.0.0.0:0")
    with pytest.raises(ConfigError, match="come together"):
        TLSFiles(tmp_path / "cert.pem", None)
    with pytest.raises(ConfigError, match=r"cert\.pem: there is no such file"):
        TLSFiles(tmp_path / "cert.pem", tmp_path / "key.pem")


def test_the_end_of_the_server(serve, start):
    """Requests are answered 504 then, and the gateway goes on."""
    server = serve(memory=True)
    gateway = start(server.address, connector=Connector(server.address, {"timeout": 0.2}))
    with gateway.program() as program:
        eventually(lambda: program.get("/v1/outcomes").is_success)  # 0.2 s may not be enough
        server.close()
        answer = program.get("/v1/outcomes")
        assert (answer.status_code, answer.json()["code"]) == (504, "timeout")
        assert program.get("/healthz").text == "ok\n"
