"""Values that Python programs have stored, as JSON."""

import base64

from msgspec import Raw

#: A time beyond the years of Python.
LATE = b"\xc7\x0c\xff" + b"\x7f" * 12


def test_what_python_programs_store(shop, server, connect):
    """Bytes come as base64; what JSON has no form for as base64 of its MessagePack."""
    other = connect(server, name="shop")
    other.submit("k", op_id="bytes", payload=b"\x00\xff")
    assert shop.get("/v1/operations/bytes").json()["payload"] == "AP8="
    other.submit("k", op_id="map", payload={(1, 2): 3})
    assert isinstance(shop.get("/v1/operations/map").json()["payload"], str)


def test_values_that_python_cannot_hold(shop, server, connect):
    """They come as base64 of their bytes, and leave the other operations of a list readable."""
    other = connect(server, name="shop")
    stored = {"utf-8": b"\xa1\xff", "key": b"\x81\x80\x01", "time": LATE}
    for op_id, payload in stored.items():
        other.submit("k", op_id=op_id, payload=Raw(payload))
    assert shop.get("/v1/operations/utf-8").json()["payload"] == "of8="
    listed = shop.get("/v1/operations").json()["operations"]
    assert {one["op_id"]: base64.b64decode(one["payload"]) for one in listed} == stored
