"""Lists of jobs, operations or repeats, page by page. Any thread."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

#: Most items asked for at once.
PAGE: Final = 500


class Page(Protocol):
    """An answer with items."""

    @property
    def after(self) -> Any:
        """The cursor of the next page; None: no more."""


_Page = TypeVar("_Page", bound=Page)
_T = TypeVar("_T")


def items_of(
    read: Callable[..., _Page],
    items: Callable[[_Page], Sequence[_T]],
    left: int,
    filters: dict[str, Any],
) -> Iterator[_T]:
    """Yield at most `left` items of the pages that `read` returns, some of them empty."""
    while left > 0:
        page = read(limit=min(left, PAGE), **filters)
        found = items(page)
        yield from found
        left -= len(found)
        if page.after is None:
            return
        filters = filters | {"cursor": page.after}


async def async_items_of(
    read: Callable[..., Awaitable[_Page]],
    items: Callable[[_Page], Sequence[_T]],
    left: int,
    filters: dict[str, Any],
) -> AsyncIterator[_T]:
    """Yield items as `items_of` does; `read` is awaited."""
    while left > 0:
        page = await read(limit=min(left, PAGE), **filters)
        found = items(page)
        for item in found:
            yield item
        left -= len(found)
        if page.after is None:
            return
        filters = filters | {"cursor": page.after}
