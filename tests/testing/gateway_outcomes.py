"""Outcomes at a gateway: how they come about, and how streams tell them."""

import json


def events(lines):
    """Yield the data of server-sent events."""
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def end(shop, *op_ids):
    """Submit operations and complete them."""
    for op_id in op_ids:
        shop.post("/v1/operations", json={"keys": [op_id], "op_id": op_id, "payload": op_id})
        shop.post(f"/v1/keys/{op_id}", json={"value": 1})
