"""The tables of a trace and of a journal, each defined by its rows: fields are the columns.

All formats, Spark's schemas and the rows of a journal derive from these.

Times are Unix milliseconds, durations milliseconds, in the range of a signed 64-bit integer. A row
made directly is not checked; readers and writers check each row. Immutable, batches by agreement;
any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter, le
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_type_hints

from purgatory.trace import validation as rules
from purgatory.trace.errors import BadValue, TraceError
from purgatory.trace.validation import ColumnType, ValueRule

RowT = TypeVar("RowT", bound=tuple[Any, ...])

#: No default.
REQUIRED: Final = object()


class Column(NamedTuple):
    """A column: the rule for its values, and `beside`, the column that the rule depends on.

    A column with a `default` may be absent from a file, and null in a row. A `rare` column is
    written only if a row needs it, and comes last; its default is 0 or False. `is_time`: Unix
    milliseconds, read from timestamps, too. `has_few`: few distinct values.
    """

    rule: ValueRule
    beside: str = ""
    default: Any = REQUIRED
    rare: bool = False
    is_time: bool = False
    has_few: bool = False
    name: str = ""

    @property
    def type(self) -> ColumnType:
        """The type of the values."""
        return self.rule.type

    @property
    def required(self) -> bool:
        """Whether a file must have the column."""
        return self.default is REQUIRED


OpId = Annotated[str, Column(rules.NAME)]
Kind = Annotated[str, Column(rules.TEXT, default="", has_few=True)]
Time = Annotated[int, Column(rules.TIME, is_time=True)]
#: A deadline may be later than any row of a trace.
AnyTime = Annotated[int, Column(rules.INTEGER, is_time=True)]
Milliseconds = Annotated[int, Column(rules.INTEGER)]


class Operation(NamedTuple):
    """An operation: submitted at a time, completed by `need` distinct keys, or else expired."""

    op_id: OpId
    kind: Kind
    submitted_ms: Time
    timeout_ms: Annotated[int, Column(rules.SPAN, beside="submitted_ms")]
    keys: Annotated[tuple[str, ...], Column(rules.KEYS)]
    need: Annotated[int, Column(rules.NEED, beside="keys", default=1)] = 1

    @property
    def deadline_ms(self) -> int:
        """The last millisecond at which an event counts, unless extended."""
        return self.submitted_ms + self.timeout_ms


class KeyEvent(NamedTuple):
    """The completion of a watch key at a time, or with `failed` its failure.

    For `hold_ms` a completion also counts for later operations. A failure is never held.
    """

    key: Annotated[str, Column(rules.NAME)]
    at_ms: Time
    hold_ms: Annotated[int, Column(rules.HOLD, "at_ms", default=0, rare=True, has_few=True)] = 0
    failed: Annotated[bool, Column(rules.TRUTH, default=False, rare=True)] = False


class Extension(NamedTuple):
    """A new timeout of a pending operation, counted from `at_ms`."""

    op_id: OpId
    at_ms: Time
    timeout_ms: Annotated[int, Column(rules.SPAN, beside="at_ms")]

    @property
    def deadline_ms(self) -> int:
        """The operation's deadline from then on."""
        return self.at_ms + self.timeout_ms


class OutcomeRow(NamedTuple):
    """The outcome of an operation; `deadline_ms` is the final deadline.

    `by_key` is the completing key, or None. `waited_ms` is `at_ms - submitted_ms`, `lateness_ms`
    the time of handling minus the due time.
    """

    op_id: OpId
    kind: Kind
    outcome: Annotated[str, Column(rules.OUTCOME, has_few=True)]
    at_ms: AnyTime
    by_key: Annotated[str | None, Column(rules.COMPLETING_KEY, beside="outcome", default=None)]
    submitted_ms: AnyTime
    deadline_ms: AnyTime
    waited_ms: Milliseconds
    lateness_ms: Milliseconds


class JobRow(NamedTuple):
    """The end of a job. A dead job tried again has another row when it ends again.

    `due_ms` and `began_ms` are of the last attempt. `queue_ms` is `began_ms - due_ms`, `run_ms` is
    `ended_ms - began_ms`. `began_ms`, `queue_ms` and `run_ms` are None if no attempt has ended the
    job. `worker`: the job's last connection. `error`: of the last attempt, or the reason of a
    cancellation.
    """

    job_id: OpId
    kind: Kind
    state: Annotated[str, Column(rules.JOB_END, has_few=True)]
    client: Annotated[str, Column(rules.TEXT, has_few=True)]
    tags: Annotated[tuple[str, ...], Column(rules.TEXTS, default=())]
    submitted_ms: AnyTime
    due_ms: AnyTime
    began_ms: Annotated[int | None, Column(rules.INTEGER, default=None, is_time=True)]
    ended_ms: AnyTime
    attempts: Annotated[int, Column(rules.INTEGER)]
    queue_ms: Annotated[int | None, Column(rules.INTEGER, default=None)]
    run_ms: Annotated[int | None, Column(rules.INTEGER, default=None)]
    worker: Annotated[str, Column(rules.TEXT, default="", has_few=True)]
    error: Annotated[str, Column(rules.TEXT, default="")]


#: A list for each column of a table, in order, all of one length.
Columns: TypeAlias = tuple[list[Any], ...]

#: Most column names in an error.
_SHOWN_NAMES: Final = 12

#: Rows of a batch made of single rows.
BATCH_ROWS: Final = 1_024


class Batch(NamedTuple):
    """Rows of a file. `numbers`: the line or row of each, for messages."""

    columns: Columns
    numbers: Sequence[int]


def columns_of(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Return rows by column; needs at least one row."""
    return tuple(map(list, zip(*rows, strict=True)))


def batched(rows: Iterable[tuple[Any, ...]]) -> Iterator[Columns]:
    """Yield rows by column, `BATCH_ROWS` at a time."""
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH_ROWS)):
        yield columns_of(batch)


def first_going_back(times: Sequence[int], before: int) -> int | None:
    """Return the place of the first time below its predecessor, or of a NaN.

    `before`: before them all.
    """
    if not before <= times[0]:
        return 0
    if all(map(le, times, islice(times, 1, None))):
        return None
    return next(n for n, at in enumerate(times) if n and not times[n - 1] <= at)


@dataclass(frozen=True, slots=True)
class Table(Generic[RowT]):
    """A kind of table: the class of its rows, and their columns in order.

    `make` makes a row of a value for each column: None stands for a default; the first bad one
    raises BadValue.
    """

    name: str
    row: type[RowT]
    time_column: str
    columns: tuple[Column, ...]
    make: Callable[..., RowT]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def time_place(self) -> int:
        """The place of the time column, counted from 0."""
        return self.names.index(self.time_column)

    @property
    def time_of(self) -> Callable[[RowT], int]:
        """A function from a row to its time in ms."""
        return attrgetter(self.time_column)

    def without_rare_columns(self) -> Table[RowT]:
        """Return the table without its rare columns."""
        return replace(self, columns=tuple(c for c in self.columns if not c.rare))

    def make_columns(self, *columns: list[Any]) -> Columns | None:
        """Return columns with their defaults; None if a row may be bad. Needs a row."""
        made: dict[str, list[Any]] = {}
        for column, values in zip(self.columns, columns, strict=True):
            name, rule, default = column.name, column.rule, column.default
            if default is not REQUIRED and default is not None and None in values:
                values = [default if value is None else value for value in values]  # noqa: PLW2901
            if not rule.all_good(values, made.get(column.beside)):
                return None
            made[name] = list(map(tuple, values)) if column.type is ColumnType.TEXTS else values
        return tuple(made.values())

    def surely_allows(self, pa: Any, arrays: Mapping[str, Any]) -> bool:
        """Tell whether Arrow arrays are good beyond doubt; needs at least one row.

        `arrays`: by column, without missing ones.
        """
        return not any(array.null_count for array in arrays.values()) and all(
            column.rule.all_surely_good(pa, arrays[column.name], arrays.get(column.beside))
            for column in self.columns
            if column.name in arrays
        )

    def missing_from(self, names: Collection[str]) -> list[str]:
        """Name the required columns that are not among `names`."""
        return [c.name for c in self.columns if c.required and c.name not in names]

    def check_columns(self, path: str, names: Collection[str]) -> None:
        """Raise TraceError for a missing or repeated column."""
        if missing := self.missing_from(names):
            raise TraceError(
                f"{path}: not a table of {self.name}, it has no column {', '.join(missing)}; "
                f"its columns are {named(names)}"
            )
        twice = [name for name in self.names if list(names).count(name) > 1]
        if twice:
            raise TraceError(f"{path}: column {', '.join(twice)} is there more than once")


def _table(name: str, row: type[RowT], time_column: str) -> Table[RowT]:
    hints = get_type_hints(row, include_extras=True)
    columns = [hint.__metadata__[0]._replace(name=field) for field, hint in hints.items()]
    return Table(name, row, time_column, tuple(columns), _maker(row, columns))


def _maker(row: type[RowT], columns: Sequence[Column]) -> Callable[..., RowT]:
    names = [column.name for column in columns]
    checks = [
        (place, column.rule.fault, column.default, names.index(column.beside or column.name))
        for place, column in enumerate(columns)
    ]
    lists = [place for place, column in enumerate(columns) if column.type is ColumnType.TEXTS]

    def make(*values: Any) -> RowT:
        made = list(values)
        for place, fault, default, beside in checks:
            value = made[place]
            if value is None and default is not REQUIRED:
                made[place] = default
            elif expected := fault(value, made[beside]):
                raise BadValue(names[place], value, expected)
        for place in lists:
            made[place] = tuple(made[place])
        return row(*made)

    # One expression makes most rows: calls would double the time of a row.
    plain = [
        column.rule.plain.format(value=column.name, beside=column.beside) for column in columns
    ]
    fields = [f"tuple({n})" if place in lists else n for place, n in enumerate(names)]
    arguments = ", ".join(names)
    expression = f"row({', '.join(fields)}) if {' and '.join(plain)} else make({arguments})"
    made_or_row: Callable[..., RowT] = eval(  # of constants
        f"lambda {arguments}: {expression}", {"row": row, "make": make}
    )
    return made_or_row


OPERATIONS: Final = _table("operations", Operation, "submitted_ms")
EVENTS: Final = _table("events", KeyEvent, "at_ms")
OUTCOMES: Final = _table("outcomes", OutcomeRow, "at_ms")
EXTENSIONS: Final = _table("extensions", Extension, "at_ms")
JOBS: Final = _table("jobs", JobRow, "ended_ms")

#: The tables of a trace; a journal also has JOBS, to which no operation refers.
TABLES: Final[tuple[Table[Any], ...]] = (OPERATIONS, EVENTS, OUTCOMES, EXTENSIONS)


def table_named(name: str) -> Table[Any] | None:
    """Return a journal's table by file name, also with a suffix."""
    stem = name.partition(".")[0]
    return next((table for table in (*TABLES, JOBS) if table.name == stem), None)


def recognise(path: str, names: Collection[str]) -> Table[Any]:
    """Return the table of a file with these columns, or raise TraceError."""
    for table in TABLES:
        if not table.missing_from(names):
            return table
    needs = "; ".join(f"{t.name}: {', '.join(t.missing_from(()))}" for t in TABLES)
    raise TraceError(
        f"{path}: its columns are {named(names)}; expected a table of a trace, which needs {needs}"
    )


def named(names: Collection[str]) -> str:
    """Return a file's first column names, for an error."""
    shown = ", ".join(repr(name) for name in islice(names, _SHOWN_NAMES))
    return (shown or "none") + ("" if len(names) <= _SHOWN_NAMES else ", ...")
