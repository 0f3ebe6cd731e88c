"""A web service whose requests wait for a webhook: FastAPI. The hook may come first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import Body, FastAPI, HTTPException

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory

purgatory = AsyncPurgatory("web")


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with purgatory:
        yield


app = FastAPI(lifespan=_lifespan)


@app.get("/orders/{order}")
async def wait_for_payment(order: str, timeout: float = 30.0) -> dict[str, float]:
    """Answer when the order is paid, or when the time is over."""
    try:
        return {"paid": await purgatory.wait(f"paid:{order}", timeout=timeout)}
    except OperationExpired as error:
        raise HTTPException(504, f"order {order} is not paid yet") from error


@app.post("/hooks/{order}")
async def payment_hook(order: str, amount: float = Body(embed=True)) -> dict[str, int]:
    """Wake requests that wait for the payment now, or within the next minute."""
    return {"woken": purgatory.complete(f"paid:{order}", amount, hold=60)}


async def main() -> None:
    """Serve, and send requests: paid before, paid after, and never paid."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        hook = client.post("/hooks/17", json={"amount": 12.5})
        print((await asyncio.gather(client.get("/orders/17"), hook))[0].text)
        print((await client.get("/orders/18?timeout=0.1")).text)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
