"""OptionAttributes: options as attributes, in any case - `socket.linger = 0`, `context.LINGER`."""

import sys
from collections.abc import Container
from typing import Any

from mq import constants
from mq.constants import Errno
from mq.errors import ZMQError


class OptionAttributes:
    """Turns attributes that the class lacks into options."""

    def __setattr__(self, key: str, value: Any) -> None:
        if key in self.__dict__ or _is_declared(type(self), key):
            object.__setattr__(self, key, value)
            return
        name = key.upper()
        option = getattr(constants, name, None)
        if option is None:
            raise AttributeError(f"{type(self).__name__} has no such option: {name}")
        self._set_attr_opt(name, option, value)

    def __getattr__(self, key: str) -> Any:
        name = key.upper()
        option = getattr(constants, name, None)
        if option is None or key.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no such option: {name}")
        try:
            return self._get_attr_opt(name, option)
        except ZMQError as error:
            if error.errno not in (Errno.EINVAL, Errno.EFAULT):
                raise
            raise AttributeError(f"{key} attribute is write-only") from None

    def _set_attr_opt(self, name: str, option: int, value: Any) -> None:  # noqa: ARG002 - a hook
        self.set(option, value)

    def _get_attr_opt(self, name: str, option: int) -> Any:  # noqa: ARG002 - a hook
        return self.get(option)

    def set(self, option: int, value: Any) -> None:
        """Set an option."""
        raise NotImplementedError

    def get(self, option: int) -> Any:
        """Read an option."""
        raise NotImplementedError


def _is_declared(cls: type, key: str) -> bool:
    # Annotated attributes count too, so that subclasses can have their own.
    return any(key in vars(base) or key in _annotated_names(base) for base in cls.__mro__)


def _annotated_names(cls: type) -> Container[str]:
    # Not through inspect: importing it would cost more than all the rest of the package.
    try:
        names: Container[str] = getattr(cls, "__annotations__", ())
    except Exception:  # noqa: BLE001 - since 3.14 annotations are evaluated now, and may raise
        return _unevaluated_names(cls)
    return names


def _unevaluated_names(cls: type) -> Container[str]:
    # An annotation may name an import of type checkers alone.
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations  # noqa: PLC0415 - rarely needed

        return get_annotations(cls, format=Format.STRING)
    return ()
