"""Keep operations at a server, on disk: they survive the process that submitted them.

The server runs in this process here, so that the example is complete; `purgatory serve` runs one of
its own. Needs the extra `service`.
"""

import tempfile
from pathlib import Path

from purgatory import OperationExpired
from purgatory.service import Client, Config, Server


def start(data_dir: Path) -> Server:
    """Start a server on a free port of this machine."""
    config = Config(data_dir=data_dir, bind="tcp://127.0.0.1:0", http_bind="", journal=False)
    server = Server(config)
    server.start()
    return server


def main() -> None:
    """Submit two operations, restart the server, and see both to their end."""
    with tempfile.TemporaryDirectory() as name:
        data_dir = Path(name)
        server = start(data_dir)
        with Client(server.address, name="shop") as shop:
            shop.defer("paid:17", timeout=3600, kind="order", op_id="order-17")
            shop.defer("paid:18", timeout=0.3, kind="order", op_id="order-18")
            shop.flush()  # both are on disk now
        server.close()
        print("the server has ended, and starts again")

        server = start(data_dir)
        with Client(server.address, name="shop") as shop:
            paid = shop.defer("paid:17", op_id="order-17")  # known already: its future again
            lost = shop.defer("paid:18", op_id="order-18")
            print("completed:", shop.complete("paid:17", {"amount": 12.5}))
            print("order-17:", paid.result())
            try:
                lost.result()
            except OperationExpired:
                print("order-18: expired")
        server.close()


if __name__ == "__main__":
    main()
