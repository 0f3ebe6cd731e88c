"""LazyAttribute: a part of a future that is made when somebody looks at it first. Any thread.

Half of the price of the standard library's future is a condition with its lock, and two lists. Most
of our futures are made by the thousand and never waited for.
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LazyAttribute(Generic[T]):
    """Stands in the class of the future, under the name of the part; ``make()`` is the part.

    ``on_first_access(future)`` is called before the first look at the part has a result.
    """

    def __init__(self, make: Callable[[], T], on_first_access: Callable[[Any], None]) -> None:
        self._make = make
        self._on_first_access = on_first_access

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: "concurrent.futures.Future[Any] | None", owner: type) -> Any:
        if future is None:  # somebody looks at the class
            return self
        self._on_first_access(future)
        fields = vars(future)
        # One of those who look at the same time makes it for all. Found in there, it is not asked
        # for here again.
        return fields.setdefault(self._name, self._make())
