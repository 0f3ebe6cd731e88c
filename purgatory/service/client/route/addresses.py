"""The addresses of servers: parsed and checked. Any thread.

A text has addresses separated by commas. An address is `tcp://HOST:PORT`, where HOST is a name, an
IPv4 address or an IPv6 address in brackets, or `ipc://PATH`.
"""

import re
from typing import Final

from purgatory.service.errors import BadAddress

#: For errors.
EXPECTED: Final = "tcp://HOST:PORT or ipc://PATH, several separated by commas"
_TCP: Final = re.compile(r"tcp://(?P<host>[^\s/:*;\[\]]+|\[[0-9A-Za-z:.%]+\]):(?P<port>[0-9]{1,5})")
_IPC: Final = re.compile(r"ipc://\S+")
# Hosts to bind to, not to connect to.
_ANY_HOST: Final = frozenset({"0.0.0.0", "[::]", "[::0]"})


def parse_addresses(text: object) -> tuple[str, ...]:
    """Return the distinct addresses of a text, in order. Raises TypeError and BadAddress."""
    if not isinstance(text, str):
        raise TypeError(f"address is {text!r}; expected a str")
    addresses = [part.strip() for part in str.split(text, ",")]
    for address in addresses:
        if not is_address(address):
            named = "" if len(addresses) == 1 else f", of which {address!r} is none"
            raise BadAddress(f"address is {text!r}{named}; expected {EXPECTED}")
    return tuple(dict.fromkeys(addresses))


def is_address(text: str) -> bool:
    """Tell whether a text is a single address."""
    found = _TCP.fullmatch(text)
    if found is None:
        return _IPC.fullmatch(text) is not None
    return 0 < int(found["port"]) < 1 << 16


def is_reachable(text: str) -> bool:
    """Tell whether a client may follow a standby to an address."""
    found = _TCP.fullmatch(text)
    return found is not None and is_address(text) and found["host"] not in _ANY_HOST
