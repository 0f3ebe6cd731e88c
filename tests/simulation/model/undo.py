"""Undo: takes back what a transaction has changed in the model."""

from collections.abc import Callable
from typing import Any


class Undo:
    """What a transaction has changed, newest last."""

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def add(self, step: Callable[..., object], *arguments: Any) -> None:
        """Note how to take a change back."""
        self._steps.append((step, arguments))

    def set(self, target: Any, name: str, value: Any) -> None:
        """Set an attribute, and note what it was before."""
        self._steps.append((setattr, (target, name, getattr(target, name))))
        setattr(target, name, value)

    def set_item(self, target: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an item of a dict; None: there is to be none."""
        self._steps.append((put, (target, key, target.get(key))))
        put(target, key, value)

    def take_back(self) -> None:
        """Take all changes back, and forget them."""
        steps, self._steps = self._steps, []
        for step, arguments in reversed(steps):
            step(*arguments)

    def forget(self) -> None:
        """Let the changes stay."""
        self._steps.clear()


def put(target: dict[Any, Any], key: Any, value: Any) -> None:
    """Set an item of a dict; None: there is to be none."""
    if value is None:
        target.pop(key, None)
    else:
        target[key] = value
