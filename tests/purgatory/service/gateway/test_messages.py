"""Values that Python programs have stored, as JSON."""


def test_what_python_programs_store(shop, server, connect):
    """Bytes come as base64; what JSON has no form for as base64 of its MessagePack."""
    other = connect(server, name="shop")
    other.submit("k", op_id="bytes", payload=b"\x00\xff")
    assert shop.get("/v1/operations/bytes").json()["payload"] == "AP8="
    other.submit("k", op_id="map", payload={(1, 2): 3})
    assert isinstance(shop.get("/v1/operations/map").json()["payload"], str)
