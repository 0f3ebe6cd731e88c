"""plain_number, check_count, check_flag, check_name: what a program may pass.

A subclass of float or int may compare, convert and print itself as it likes, as numpy.float64 does.
So an argument is first made a plain number. Any thread.
"""

from typing import Any, Final

# Of tasks, slots or events; more would not fit into 64 bits with some added.
MAX_COUNT: Final = 2**61


def plain_number(value: object) -> Any:
    """Return exactly a float or an int; None for anything else, bools too."""
    kind = type(value)
    if kind is float or kind is int:  # nearly always
        return value
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    return None


def plain_int(name: str, value: object) -> int:
    """Return exactly an int; TypeError for anything else."""
    number = plain_number(value)
    if type(number) is not int:
        raise TypeError(f"{name} is {value!r}; expected an int")
    return number


def check_count(name: str, value: object, least: int, most: int = MAX_COUNT) -> int:
    """Return a count as an int; TypeError for another type, ValueError beyond the bounds."""
    count = plain_int(name, value)
    if count < least:
        raise ValueError(f"{name} is {value!r}; expected at least {least}")
    if count > most:
        raise ValueError(f"{name} is {value!r}; expected at most {most}")
    return count


def check_flag(name: str, value: object) -> None:
    """Raise TypeError unless a bool, or an int: the text "no" would count as yes."""
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}; expected a bool")


def check_name(name: object) -> None:
    """Raise TypeError unless a str, ValueError unless UTF-8 can encode it.

    A name in metrics and logs with half of a surrogate pair (`os.fsdecode`) would spoil the page.
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}; expected a str")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"name is {name!r}; expected text that UTF-8 can encode") from error
