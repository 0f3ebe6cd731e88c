"""A web service whose requests wait for a webhook: aiohttp. The hook may come first."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import ClientSession, web

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory

PURGATORY = web.AppKey("purgatory", AsyncPurgatory)


async def _lifespan(app: web.Application) -> AsyncIterator[None]:
    async with AsyncPurgatory("web") as app[PURGATORY]:
        yield


async def wait_for_payment(request: web.Request) -> web.Response:
    """Answer when the order is paid, or when the time is over."""
    order, timeout = request.match_info["order"], float(request.query.get("timeout", "30"))
    try:
        amount = await request.app[PURGATORY].wait(f"paid:{order}", timeout=timeout)
    except OperationExpired:
        return web.json_response({"detail": f"order {order} is not paid yet"}, status=504)
    return web.json_response({"paid": amount})


async def payment_hook(request: web.Request) -> web.Response:
    """Wake requests that wait for the payment now, or within the next minute."""
    key, amount = f"paid:{request.match_info['order']}", (await request.json())["amount"]
    return web.json_response({"woken": request.app[PURGATORY].complete(key, amount, hold=60)})


def new_app() -> web.Application:
    """Return the application, for `web.run_app`."""
    app = web.Application()
    app.cleanup_ctx.append(_lifespan)
    app.router.add_get("/orders/{order}", wait_for_payment)
    app.router.add_post("/hooks/{order}", payment_hook)
    return app


async def main() -> None:
    """Serve, and send requests: paid before, paid after, and never paid."""
    runner = web.AppRunner(new_app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
        hook = client.post("/hooks/17", json={"amount": 12.5})
        print(await (await asyncio.gather(client.get("/orders/17"), hook))[0].text())
        print(await (await client.get("/orders/18?timeout=0.1")).text())
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
