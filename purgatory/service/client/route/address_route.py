"""AddressRoute: which server a client tries next. Used with the `Turn`.

A client tries the addresses of its list in turn. If a standby names the active server, this address
is next, listed or not. The route remembers an unlisted address only while a server welcomes the
client there. After a round of failed addresses, as of standbys that name each other, the client
waits a little.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.client.backoff import backoff_s
from purgatory.service.client.route.addresses import is_reachable

#: Seconds between two rounds, at first and at most.
ROUND_DELAY_S: Final = (0.1, 0.5)
#: Seconds for an attempt to connect; doubled every two rounds.
ATTEMPT_S: Final = 1.0
# Most unlisted addresses that are remembered, or tried in a round.
_MAX_UNLISTED: Final = 4


class AddressRoute:
    """The addresses `listed`, in order; `uniform` is the source of chance."""

    def __init__(self, listed: tuple[str, ...], uniform: Callable[[float, float], float]) -> None:
        self._listed = listed
        self._uniform = uniform
        self._learned: tuple[str, ...] = ()  # not listed; a server welcomed the client there
        self._tried: set[str] = set()  # in vain, in this round
        self._place = 0  # of the last known address that was tried
        self._rounds = 0  # in vain, one after the other
        #: The address to connect to.
        self.current: str = listed[0]

    @property
    def has_choice(self) -> bool:
        """Whether there is another address to try."""
        return len(self._listed) + len(self._learned) > 1 or self.current not in self._listed

    def attempt_s(self, longest: float) -> float:
        """Return the seconds for an attempt to connect."""
        return min(longest, ATTEMPT_S * 2.0 ** min(self._rounds // 2, 10))

    def others(self) -> tuple[str, ...]:
        """Return the other known addresses in the order to try them."""
        known = self._listed + self._learned
        start = known.index(self.current) + 1 if self.current in known else self._place
        return tuple(each for each in known[start:] + known[:start] if each != self.current)

    def note_welcome(self) -> None:
        """Note a welcome at the current address."""
        self._tried.clear()
        self._rounds = 0
        if self.current not in self._listed + self._learned:
            self._learned = (*self._learned[1 - _MAX_UNLISTED :], self.current)

    def advance(self, named: str = "", *, failed: bool = True) -> float:
        """Choose the next address; return the seconds to wait before connecting.

        `named`: by a standby. `failed`: without a welcome at the current address.
        """
        others = self.others()
        if failed:
            self._tried.add(self.current)
            self._learned = tuple(each for each in self._learned if each != self.current)
        if self._may_follow(named):
            return self._go(named)
        for address in others:
            if address not in self._tried:
                return self._go(address)
        self._tried.clear()
        self._rounds += 1
        self._go(others[0] if others else self._listed[0])
        return backoff_s(self._rounds, *ROUND_DELAY_S, self._uniform)

    def _may_follow(self, named: str) -> bool:
        known = self._listed + self._learned
        return (
            named not in (self.current, *self._tried)
            and (named in known or is_reachable(named))
            and len(self._tried) < len(known) + _MAX_UNLISTED
        )

    def _go(self, address: str) -> float:
        known = self._listed + self._learned
        if address in known:
            self._place = known.index(address)
        self.current = address
        return 0.0
