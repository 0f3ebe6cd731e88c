"""LazyAttribute: an attribute of a future that is made at its first access. Any thread.

Half of the price of the standard library's future is a condition with its lock, and two lists. Most
futures here are made by the thousand, and no thread ever waits for them.
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LazyAttribute(Generic[T]):
    """A descriptor in the future's class, under the attribute's name; `make()` is its value.

    `on_first_access(future)` is called before the first access has a result.
    """

    def __init__(self, make: Callable[[], T], on_first_access: Callable[[Any], None]) -> None:
        self._make = make
        self._on_first_access = on_first_access

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: "concurrent.futures.Future[Any] | None", owner: type) -> Any:
        if future is None:  # accessed on the class
            return self
        self._on_first_access(future)
        fields = vars(future)
        # If threads race here, all get the same value. From now on the instance's own attribute is
        # found before this descriptor.
        return fields.setdefault(self._name, self._make())
