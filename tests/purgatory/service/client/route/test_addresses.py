"""The addresses of a text: what is accepted, and what a bad one is told."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory.service import AsyncClient, BadAddress, Client
from purgatory.service.client.route.addresses import is_address, is_reachable, parse_addresses
from purgatory.service.worker.worker import Worker

GOOD = [
    "tcp://127.0.0.1:7411",
    "tcp://a:1",
    "tcp://db-1.example.com:65535",
    "tcp://a_b:7411",
    "tcp://[::1]:7411",
    "tcp://[fe80::1%eth0]:7411",
    "ipc:///run/purgatory.sock",
]
BAD = [
    "",
    " ",
    "tcp://",
    "tcp://a",
    "tcp://a:",
    "tcp://a:b",
    "tcp://a:0",
    "tcp://a:65536",
    "tcp://*:7411",
    "tcp://::1:7411",
    "tcp://a b:7411",
    "a:7411",
    "ipc://",
    "http://a:7411",
    "TCP://a:7411",
    "tcp://a:7411;tcp://b:7411",
    "tcp://a:7411/",
]


@pytest.mark.parametrize("address", GOOD)
def test_a_good_address(address):
    """It is one, also among others and between spaces."""
    assert is_address(address)
    assert parse_addresses(address) == (address,)
    assert parse_addresses(f" tcp://first:1 ,{address} ") == ("tcp://first:1", address)


@pytest.mark.parametrize("address", BAD)
def test_a_bad_address(address):
    """It is refused by each kind of client, alone and among others; the error names it."""
    assert not is_address(address.strip())
    with pytest.raises(BadAddress, match="expected tcp://HOST:PORT or ipc://PATH"):
        parse_addresses(address)
    text = f"tcp://a:7411,{address}"
    with pytest.raises(BadAddress) as caught:
        Client(text)
    assert repr(text) in str(caught.value)
    assert repr(address.strip()) in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(BadAddress):
        AsyncClient(text)
    with pytest.raises(BadAddress):
        Worker(text, name="w")


def test_a_comma_too_much():
    """An address is missing there."""
    for text in ("tcp://a:1,", ",tcp://a:1", "tcp://a:1,,tcp://b:1"):
        with pytest.raises(BadAddress, match="'' is none"):
            parse_addresses(text)


@pytest.mark.parametrize("value", [None, b"tcp://a:1", ["tcp://a:1"], 7411])
def test_what_is_no_text(value):
    """It is a TypeError that names it."""
    with pytest.raises(TypeError, match="expected a str"):
        parse_addresses(value)


@given(st.lists(st.sampled_from(GOOD), min_size=1))
def test_each_once_in_order(addresses):
    """An address that is there twice is tried once."""
    assert parse_addresses(",".join(addresses)) == tuple(dict.fromkeys(addresses))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tcp://a:7411", True),
        ("tcp://10.0.0.1:7411", True),
        ("tcp://0.0.0.0:7411", False),
        ("tcp://[::]:7411", False),
        ("ipc:///run/purgatory.sock", False),
        ("tcp://a:0", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_what_a_standby_may_name(address, expected):
    """An address that another machine can reach: no path, and not "any host"."""
    assert is_reachable(address) is expected
