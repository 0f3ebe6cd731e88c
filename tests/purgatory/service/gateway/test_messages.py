"""Values that Python programs have stored, as JSON."""

import base64

import msgspec


def test_what_python_programs_store(shop, server, connect):
    """Bytes come as base64; what JSON has no form for as base64 of its MessagePack."""
    other = connect(server, name="shop")
    other.submit("k", op_id="bytes", payload=b"\x00\xff")
    assert shop.get("/v1/operations/bytes").json()["payload"] == "AP8="
    other.submit("k", op_id="map", payload={(1, 2): 3})
    assert isinstance(shop.get("/v1/operations/map").json()["payload"], str)


def test_what_python_cannot_hold(shop, server, connect):
    """A time after the year 9999, and a map with maps as keys: base64, and the page is JSON."""
    stored = [b"\xc7\x0c\xff" + b"\x7f" * 12, b"\x81\x81\xa1a\x01\x02"]
    other = connect(server, name="shop")
    for number, data in enumerate(stored):
        other.submit("k", op_id=str(number), payload=msgspec.Raw(data))
    page = shop.get("/v1/operations").json()["operations"]
    assert [base64.b64decode(one["payload"]) for one in page] == stored
