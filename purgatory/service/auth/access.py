"""Access: the rights of a key, and its client names. Immutable, so any thread may use it."""

import re
from collections.abc import Iterable
from typing import Final, Self

from purgatory.service.errors import KeysError, NotAllowed
from purgatory.service.job_messages import Begin
from purgatory.service.protocol import Request
from purgatory.service.verbs import VERBS

#: `administer` includes all.
RIGHTS: Final = ("submit", "complete", "read", "work", "administer")
# Printable ASCII without spaces, commas and `=`.
_NAME: Final = re.compile(r"[!-+\--<>-~]{1,200}")
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Access:
    """What a key may do: `label` is its name in the allow list.

    `names`: the client names that it may use; empty: any. Raises KeysError for a bad name or right,
    TypeError for a text as a collection.
    """

    __slots__ = (
        "_granted",
        "acknowledges",
        "gets_outcomes",
        "label",
        "names",
        "own_only",
        "rights",
    )

    def __init__(
        self, label: str, names: Iterable[str] = (), rights: Iterable[str] = RIGHTS
    ) -> None:
        if isinstance(names, str) or isinstance(rights, str):
            raise TypeError(f"names is {names!r}, rights is {rights!r}; expected collections")
        self.label: str = label
        self.names: tuple[str, ...] = tuple(dict.fromkeys(names))
        given = set(rights)
        self.rights: tuple[str, ...] = tuple(right for right in RIGHTS if right in given)
        _check(self.names, given)
        #: Whether limited to operations of its own client name.
        self.own_only: bool = "administer" not in given
        self._granted: frozenset[str] = frozenset(given if self.own_only else RIGHTS)
        self.acknowledges: bool = "submit" in self._granted
        self.gets_outcomes: bool = not self._granted.isdisjoint(("submit", "read"))

    @classmethod
    def parse(cls, label: str, options: Iterable[str]) -> Self:
        """Return the access of options, as `names=a,b rights=submit,read`. Raises KeysError."""
        found: dict[str, list[str]] = {}
        for option in options:
            kind, equals, values = option.partition("=")
            if kind not in ("names", "rights") or not equals or kind in found:
                raise KeysError(f"{option!r}: expected names=NAME,... and rights=RIGHT,..., once")
            found[kind] = values.split(",")
        return cls(label, **found)

    def options(self) -> list[str]:
        """Return the options for `parse`; none if nothing is limited."""
        found = [f"names={','.join(self.names)}"] if self.names else []
        return found + ([f"rights={','.join(self.rights)}"] if self.own_only else [])

    def allows_name(self, name: str) -> bool:
        """Return whether the key may use a client name."""
        return not self.names or name in self.names

    def check_name(self, name: str) -> None:
        """Raise NotAllowed unless `allows_name`."""
        if not self.allows_name(name):
            expected = " or ".join(map(repr, self.names))
            raise NotAllowed(f"client name {name!r} is not for this key; expected {expected}")

    def has(self, right: str) -> bool:
        """Return whether the key has a right."""
        return right in self._granted

    def check_request(self, request: Request) -> None:
        """Raise NotAllowed unless the key has the right for a request."""
        kind = type(request)
        right = "work" if kind is Begin else VERBS[kind].right if kind in VERBS else None
        if right is not None and right not in self._granted:
            name = _CAPITAL.sub(" ", kind.__name__).lower()
            raise NotAllowed(
                f"{name} needs the right {right!r}; this key has {', '.join(self.rights)}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Access) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[object, ...]:
        return self.label, self.names, self.rights if self.own_only else RIGHTS

    def __repr__(self) -> str:
        return f"Access({self.label!r}, {self.names!r}, {self.rights!r})"


def _check(names: Iterable[str], rights: set[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise KeysError(
                f"{name!r} cannot be listed as a client name; expected up to 200 characters of "
                "ASCII, without spaces, commas and ="
            )
    unknown = sorted(rights.difference(RIGHTS))
    if unknown or not rights:
        raise KeysError(
            f"{', '.join(unknown)!r} is not a right; expected some of {', '.join(RIGHTS)}"
        )


#: Of each client of a server without keys.
EVERYTHING: Final = Access("")
