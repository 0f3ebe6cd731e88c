"""Reasons: why JSON does not have the expected type, in JSON's words. Pure; any thread.

msgspec names Python's types, and none of the permitted choices or fields.
"""

import re
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

_NAMES: Final = {
    "array": "an array",
    "bool": "true or false",
    "datetime": "a time with its zone, as 2027-03-01T09:00:00+01:00",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`")
_CHOICE: Final = re.compile(r"Invalid enum value (.*)")
_TYPES: Final = re.compile(
    r"Expected `([a-z |]+)`(?: (?:of (length ))?([<>]=) (-?\d+)(?:\.0)?)?(?:, got `([a-z]+)`)?"
)
_BOUNDS: Final = {">=": "or more", "<=": "or less"}
#: By a part of msgspec's other errors.
_WORDS: Final = {
    "datetime": f"expected {_NAMES['datetime']}",
    "matching regex": "expected a text as the gateway gave it",
}


def reason_of(error: str, name: str, kind: Any) -> str:
    """Return the reason of msgspec's `error`; `name` and `kind`: of the decoded value."""
    reason, _, place = error.partition(" - at `$")
    place = place.strip(".`")
    kind, place = _type_at(kind, place), place or name
    if found := _FIELD.fullmatch(reason):
        expected = ", ".join(_choices(kind)) or "no field"
        if found[1] == "missing required":
            return f"{place} lacks the field `{found[2]}`"
        return f"{place} has the unknown field `{found[2]}`; expected {expected}"
    if found := _CHOICE.fullmatch(reason):
        return f"{place} is {found[1]}; expected {', '.join(_choices(kind))}"
    if found := _TYPES.fullmatch(reason):
        return _of_types(place, *found.groups())
    known = (words for part, words in _WORDS.items() if part in reason)
    return f"{place}: {next(known, reason)}"


def _of_types(
    place: str, types: str, length: str | None, bound: str | None, limit: str, got: str | None
) -> str:
    expected = ", ".join(_NAMES.get(each, each) for each in types.split(" | "))
    if bound:
        expected += f" of {length or ''}{limit} {_BOUNDS[bound]}"
    return f"{place}{f' is {_NAMES.get(got, got)};' if got else ':'} expected {expected}"


def _type_at(kind: Any, place: str) -> Any:
    """Return the type at a place, as `error.type` or `keys[0]`."""
    for step in re.findall(r"[a-z_]+|\[", place):
        kind = next(filter(None, (_type_within(each, step) for each in _variants(kind))), None)
    return kind


def _type_within(kind: Any, step: str) -> Any:
    if step == "[":
        return get_args(kind)[0] if get_origin(kind) is list else None
    return {each.name: each.type for each in _fields(kind)}.get(step)


def _variants(kind: Any) -> list[Any]:
    """Return the types of a union, without annotations."""
    if get_origin(kind) is Annotated:
        return _variants(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [each for part in get_args(kind) for each in _variants(part)]
    return [kind]


def _choices(kind: Any) -> list[str]:
    found: list[str] = []
    for each in _variants(kind):
        found += get_args(each) if get_origin(each) is Literal else ()
        found += (field.name for field in _fields(each))
    return found


def _fields(kind: Any) -> tuple[FieldInfo, ...]:
    return fields(kind) if isinstance(kind, type) and issubclass(kind, Struct) else ()
