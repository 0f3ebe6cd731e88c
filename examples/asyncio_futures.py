"""Await delayed operations in an event loop: the first event of several, or a deadline.

`asyncio.wrap_future` awaits a future of a purgatory. Cancelling the awaiting task cancels the
operation. Completions may come from any thread.
"""

import asyncio

from purgatory import OperationExpired, Purgatory


async def checkout(purgatory: Purgatory, order: int) -> str:
    """Wait for the payment of an order, no longer than half a second."""
    paid = purgatory.defer(f"paid:{order}", timeout=0.5)
    try:
        amount = await asyncio.wrap_future(paid)
    except OperationExpired:
        return f"order {order} is given up"
    return f"order {order} is paid: {amount:.2f}"


async def main() -> None:
    """Check out three orders at a time; a customer leaves before paying."""
    with Purgatory("shop") as purgatory:
        async with asyncio.TaskGroup() as group:
            orders = [group.create_task(checkout(purgatory, order)) for order in (1, 2, 3)]
            await asyncio.sleep(0)  # let them begin to wait
            purgatory.complete("paid:1", 12.5)
            orders[2].cancel()
        for order in orders[:2]:
            print(order.result())
        print("cancelled:", orders[2].cancelled(), "waiting:", purgatory.delayed)


if __name__ == "__main__":
    asyncio.run(main())
