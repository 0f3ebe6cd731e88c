"""Wait in an event loop for an event, no longer than a deadline.

Cancelling the task cancels the operation.
"""

import asyncio

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory


async def checkout(purgatory: AsyncPurgatory, order: int) -> str:
    """Wait for the payment of an order, no longer than half a second."""
    try:
        amount = await purgatory.wait(f"paid:{order}", timeout=0.5)
    except OperationExpired:
        return f"order {order} is given up"
    return f"order {order} is paid: {amount:.2f}"


async def main() -> None:
    """Check out three orders at a time; a customer leaves before paying."""
    async with AsyncPurgatory("shop") as purgatory:
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
