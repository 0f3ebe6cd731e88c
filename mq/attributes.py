"""Options as attributes: `socket.linger = 0` for `socket.setsockopt(LINGER, 0)`.

Who may call it: as for the class it is mixed into.
"""

from __future__ import annotations

import inspect
from enum import IntEnum
from errno import EINVAL
from typing import Any

from mq.constants import SocketOption
from mq.errors import ZMQError
from mq.options import is_bytes


class OptionAttributes:
    """Turns unknown attributes into options, read and written by `get` and `set`."""

    _option_names: type[IntEnum] = SocketOption

    def get(self, option: int) -> Any:
        """The value of an option."""
        raise NotImplementedError

    def set(self, option: int, value: Any) -> None:
        """Set an option."""
        raise NotImplementedError

    def _option(self, name: str) -> IntEnum | None:
        return self._option_names.__members__.get(name.upper())

    def __getattr__(self, name: str) -> Any:
        option = self._option(name)
        if option is None:
            raise AttributeError(f"{type(self).__name__} has no attribute or option {name!r}")
        return self._get_attr_opt(name, option)

    def __setattr__(self, name: str, value: Any) -> None:
        if _declared(type(self), name):
            object.__setattr__(self, name, value)
            return
        option = self._option(name)
        if option is None:
            self._set_other(name, value)
        else:
            self._set_attr_opt(name, option, value)

    def _set_other(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute or option {name!r}")
        object.__setattr__(self, name, value)

    def _get_attr_opt(self, name: str, option: int) -> Any:
        try:
            return self.get(option)
        except ZMQError as exc:
            if exc.errno == EINVAL:
                raise AttributeError(f"{name} attribute is write-only") from None
            raise

    def _set_attr_opt(self, name: str, option: int, value: Any) -> None:  # noqa: ARG002
        self.set(option, value.encode() if isinstance(value, str) and is_bytes(option) else value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._option_names.__members__})


def _declared(cls: type, name: str) -> bool:
    """Whether a class says it has the attribute, by a value or an annotation.

    A subscription is the exception: `subscribe` is a method, and `socket.subscribe = b"topic"` sets
    the option.
    """
    if name in ("subscribe", "unsubscribe"):
        return False
    return any(
        name in parent.__dict__ or name in inspect.get_annotations(parent) for parent in cls.__mro__
    )
