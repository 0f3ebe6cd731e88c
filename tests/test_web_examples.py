"""The web services in examples/: real requests, hooks that come late, early or never."""

import asyncio
import sys
from contextlib import asynccontextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

httpx = pytest.importorskip("httpx")
EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    """Import a program anew: each has its own application, for one loop."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def serve_fastapi():
    """Serve with uvicorn; the address, and the purgatory."""
    pytest.importorskip("fastapi")
    uvicorn = pytest.importorskip("uvicorn")
    module = load("webhook_fastapi")
    server = uvicorn.Server(uvicorn.Config(module.app, port=0, ws="none", log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1], module.purgatory
    server.should_exit = True
    await serving


@asynccontextmanager
async def serve_aiohttp():
    """Serve with aiohttp; the address, and the purgatory."""
    web = pytest.importorskip("aiohttp.web")
    module = load("webhook_aiohttp")
    # With handler_cancellation, as in web.run_app(..., handler_cancellation=True).
    runner = web.AppRunner(module.new_app(), handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1], runner.app[module.PURGATORY]
    await runner.cleanup()


@pytest.mark.parametrize("serve", [serve_fastapi, serve_aiohttp])
class TestWebhook:
    """What both services do."""

    def test_hooks_late_early_and_never(self, serve):
        """Each request is answered, with the payment or with a timeout."""

        async def main():
            async with (
                serve() as (port, purgatory),
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
            ):
                waiting = asyncio.create_task(client.get("/orders/1"))
                while not purgatory.delayed:
                    await asyncio.sleep(0.001)
                late = await client.post("/hooks/1", json={"amount": 12.5})
                assert (late.json(), (await waiting).json()) == ({"woken": 1}, {"paid": 12.5})
                early = await client.post("/hooks/2", json={"amount": 3})
                paid = await client.get("/orders/2")
                assert (early.json(), paid.json()) == ({"woken": 0}, {"paid": 3})
                never = await client.get("/orders/3?timeout=0.01")
                assert (never.status_code, "not paid" in never.text) == (504, True)

        asyncio.run(main())

    def test_many_requests_at_once(self, serve):
        """All that wait for one order are answered by one hook."""

        async def main():
            async with (
                serve() as (port, purgatory),
                httpx.AsyncClient(
                    base_url=f"http://127.0.0.1:{port}",
                    limits=httpx.Limits(max_connections=None),
                    timeout=60,
                ) as client,
            ):
                requests = [asyncio.create_task(client.get("/orders/1")) for _ in range(100)]
                while purgatory.delayed < len(requests):
                    await asyncio.sleep(0.001)
                hook = await client.post("/hooks/1", json={"amount": 1})
                assert hook.json() == {"woken": len(requests)}
                answers = await asyncio.gather(*requests)
                assert [answer.json() for answer in answers] == [{"paid": 1}] * len(requests)

        asyncio.run(main())

    def test_stopping_ends_what_waits(self, serve):
        """No wait outlives the server."""

        async def main():
            async with serve() as (_, purgatory):
                pass
            assert purgatory.purgatory.delayed == 0

        asyncio.run(main())
