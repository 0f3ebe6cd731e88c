"""Config: the settings of a server, and where they come from.

Lowest precedence first: the defaults here, a TOML file, the environment (`PURGATORY_` and the name
in capitals), flags. A duration is a number of seconds, or a text like "90s", "7d", "PT30M".
Immutable, so any thread may read it.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from purgatory.durations import EXAMPLES, parse_duration
from purgatory.service.errors import ConfigError
from purgatory.service.machine_memory import MIN_BYTES, default_max_memory

PREFIX: Final = "PURGATORY_"
CONFIG_FILE: Final = PREFIX + "CONFIG"
_TRUE: Final = ("1", "true", "yes", "on")
LOG_FORMATS: Final = ("text", "json")
STORE_URLS: Final = ("postgresql://", "postgres://")
# libzmq would take a larger port modulo 65,536.
_MOST_PORT: Final = 65_535
# No host, no port, or an IPv6 address alone.
_INCOMPLETE: Final = re.compile(r"tcp://(:[^:]*|[^:/]*|[^/]*[]:])")
_ADDRESS: Final = re.compile(r"tcp://[^\s,/]+:(?P<port>[0-9]{1,5})|ipc://[^\s,]+")
# Without a scheme, a port or a path; or an address in digits.
_HOST_NAME: Final = re.compile(r"[\w.-]+|\[?[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]?")
PARTITION: Final = re.compile(r"[a-z0-9_]{1,20}")
#: A beat has to arrive within a quarter of `takeover_after`.
LEAST_TAKEOVER_S: Final = 0.5
_FALSE: Final = ("0", "false", "no", "off", "")


def _setting(default: Any, text: str, metavar: str = "") -> Any:
    """Make a setting; `metavar` names the value in the help."""
    return field(default=default, metadata={"help": text, "metavar": metavar})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of a server. Raises ConfigError for a bad value.

    Durations are seconds, or texts like "7d"; paths may be texts. `purgatory serve --help` shows
    the metadata of each field. `max_memory` is by default half of the machine's or the cgroup's.
    """

    data_dir: Path = _setting(Path("purgatory-data"), "where the database and the journal are")  # noqa: RUF009
    memory: bool = _setting(False, "keep nothing on disk")
    store: str = field(
        default="",
        repr=False,  # it may have a password
        metadata={
            "help": "URL of a PostgreSQL database that keeps the data, instead of the directory",
            "metavar": "URL",
        },
    )
    partition: str = _setting("", "name of a part of that database, with data of its own", "NAME")
    advertise: str = _setting(
        "", "the server's address for clients and other servers (default: bind)", "ADDRESS"
    )
    takeover_after: float = _setting(
        5.0, "seconds without a sign of life after which a standby takes over"
    )
    require_replicated: bool = _setting(
        False, "refuse writes while that database has no synchronous standby"
    )
    bind: str = _setting("tcp://127.0.0.1:7411", "address of the protocol", "ADDRESS")
    http_bind: str = _setting(
        "127.0.0.1:7412", "host:port of the page and the metrics; empty for none", "ADDRESS"
    )
    http_hosts: str = _setting("", "further names of the page's host, separated by commas", "NAMES")
    log_format: str = _setting("text", "text, or json: an object a line", "FORMAT")
    keys_dir: Path = _setting(  # noqa: RUF009
        Path(), "where the CURVE keys are (default: keys in the data directory)"
    )
    insecure: bool = _setting(False, "allow a bind beyond loopback without keys")
    journal: bool = _setting(True, "write the journal")
    journal_seconds: float = _setting(60.0, "seconds between its files")
    retention: float = _setting(7 * 86400.0, "seconds that an unacknowledged outcome is kept")
    remember_ended: float = _setting(
        86400.0, "seconds that an id from a caller is remembered after the end, by default"
    )
    close_timeout: float = _setting(10.0, "seconds that closing the server may take")
    max_message_bytes: int = _setting(1 << 20, "bytes of a message")
    max_keys: int = _setting(100, "watch keys of an operation")
    max_text_bytes: int = _setting(1024, "bytes of a key, id, kind or client name")
    max_payload_bytes: int = _setting(1 << 16, "bytes of a payload or value")
    max_pending_per_client: int = _setting(
        2_000_000, "operations and unacknowledged outcomes of a client"
    )
    max_pending: int = _setting(5_000_000, "the same, of all clients")
    max_timeout: float = _setting(366 * 86400.0, "longest timeout in seconds")
    max_held: int = _setting(100_000, "events held for later operations")
    max_remembered: int = _setting(10_000_000, "ids from callers, remembered or to be remembered")
    max_items: int = _setting(512, "operations, keys, ids or numbers of a request")
    max_clients: int = _setting(1000, "connections at a time")
    max_memory: int = field(
        default_factory=default_max_memory,
        metadata={
            "help": "bytes of memory, 0: no limit (default: half of the machine's or the cgroup's)"
        },
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            value = _checked(each.name, getattr(self, each.name), each)
            object.__setattr__(self, each.name, value)
        if 0 < self.max_memory < MIN_BYTES:
            raise ConfigError(
                f"max_memory is {self.max_memory}; expected 0, or at least {MIN_BYTES}"
            )
        self._check_sizes()
        self._check_ports()
        self._check_store()
        if self.log_format not in LOG_FORMATS:
            raise ConfigError(f"log_format is {self.log_format!r}; expected text or json")
        if self.keys_dir == Path():
            object.__setattr__(self, "keys_dir", self.data_dir / "keys")

    def _is_set(self, name: str) -> bool:
        return bool(getattr(self, name) != type(self).__dataclass_fields__[name].default)

    def _check_sizes(self) -> None:
        most = self.max_message_bytes
        for name in ("max_payload_bytes", "max_text_bytes"):
            size = getattr(self, name)
            if size > most and self._is_set(name):
                raise ConfigError(f"{name} is {size}; expected at most max_message_bytes, {most}")

    def _check_ports(self) -> None:
        port = self.bind.rpartition(":")[2]
        if self.bind.startswith("tcp:") and port.isdecimal() and not _is_port(port):
            raise ConfigError(f"bind is {self.bind!r}; expected a port of at most {_MOST_PORT}")
        if self.bind.startswith("tcp:") and _INCOMPLETE.fullmatch(self.bind):
            raise ConfigError(f"bind is {self.bind!r}; expected tcp://HOST:PORT or ipc://PATH")
        if self.http_bind:
            host_and_port(self.http_bind, "http_bind")
        host_names(self.http_hosts, "http_hosts")

    def _check_store(self) -> None:
        if not self.store:
            for name in ("partition", "require_replicated", "advertise", "takeover_after"):
                if self._is_set(name):
                    raise ConfigError(f"{name} is set; expected a store as well")
            return
        if not self.store.startswith(STORE_URLS):
            scheme, separator, _ = self.store.partition("://")
            shown = scheme if separator else "no URL"  # the rest may have a password
            raise ConfigError(f"store is {shown}; expected postgresql://host/database")
        if self.memory:
            raise ConfigError("store and memory are set; expected one of them")
        if self.partition and not PARTITION.fullmatch(self.partition):
            raise ConfigError(
                f"partition is {self.partition!r}; expected at most 20 of a-z, 0-9 and _"
            )
        if self.takeover_after < LEAST_TAKEOVER_S:
            raise ConfigError(
                f"takeover_after is {self.takeover_after:g}; expected at least {LEAST_TAKEOVER_S:g}"
            )
        if self.advertise and not _is_reachable(self.advertise):
            raise ConfigError(
                f"advertise is {self.advertise!r}; expected the address of this server alone, "
                "for clients, such as tcp://a:7411"
            )
        if not self.advertise and _is_wildcard(self.bind):
            raise ConfigError(
                f"bind is {self.bind!r}, and no client can connect to a wildcard; "
                "expected advertise as well, such as tcp://a:7411"
            )

    @property
    def database(self) -> Path | None:
        """The file of the database; None: no file."""
        return None if self.memory or self.store else self.data_dir / "purgatory.db"

    @property
    def own_dir(self) -> Path:
        """The directory of this server alone: with a store, one for each address."""
        if not self.store:
            return self.data_dir
        address = (self.advertise or self.bind).rpartition("://")[2]
        return self.data_dir / re.sub(r"[^A-Za-z0-9.-]", "_", address)

    @property
    def journal_dir(self) -> Path:
        """Of the journal's Parquet files."""
        return self.own_dir / "journal"

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] | None = None,
        *,
        file: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Self:
        """Merge the settings of all places; values of `flags` are texts, None means not set.

        `file`: the TOML file, by default that of `PURGATORY_CONFIG`. Raises ConfigError.
        """
        if file is None and environment.get(CONFIG_FILE):
            file = Path(environment[CONFIG_FILE]).expanduser()
        settings = {} if file is None else _read_file(file)
        for each in fields(cls):
            name, place = each.name, PREFIX + each.name.upper()
            if place in environment:
                settings[name] = _parsed(place, environment[place], each)
            if flags is not None and flags.get(name) is not None:
                settings[name] = _parsed(f"--{name.replace('_', '-')}", flags[name], each)
        return cls(**settings)


def _is_reachable(address: str) -> bool:
    found = _ADDRESS.fullmatch(address)
    in_range = found is not None and 0 < int(found["port"] or 1) <= _MOST_PORT
    return in_range and not _is_wildcard(address)


def _is_wildcard(bind: str) -> bool:
    host = bind.rpartition("://")[2].rpartition(":")[0]
    return host in ("*", "0.0.0.0", "[::]")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _MOST_PORT


def host_and_port(bind: str, name: str = "the address for HTTP") -> tuple[str, int]:
    """Split "host:port" or "[address]:port". Raises ConfigError."""
    host, _, port = bind.rpartition(":")
    # Without a port an IPv6 address may end in a colon and digits.
    is_host = host.strip("[]") and not host.endswith(":")
    if not is_host or not _is_port(port):
        raise ConfigError(f"{name} is {bind!r}; expected HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def host_names(text: str, place: str) -> list[str]:
    """Split names of hosts separated by commas. Raises ConfigError, as for an address."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise ConfigError(f"{place} has {name!r}; expected names such as jobs.example.org")
    return names


def _read_file(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))  # some editors add a mark
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    known = {each.name: each for each in fields(Config)}
    settings = {}
    for name, value in table.items():
        if name not in known:
            raise ConfigError(
                f"{path}: {name} is not a setting; expected one of {', '.join(known)}"
            )
        settings[name] = _checked(f"{path}: {name}", value, known[name])
    return settings


def _checked(place: str, value: Any, setting: Field[Any]) -> Any:
    """Return the value of a setting, from a program or the file."""
    if setting.type in _WRITTEN_AS_TEXT and isinstance(value, str):
        return _parsed(place, value, setting)
    _check(place, value, setting)
    return value


def _parsed(place: str, value: Any, setting: Field[Any]) -> Any:
    """Convert a text to the type of its setting."""
    kind: Any = setting.type
    if not isinstance(value, str):
        return value
    if kind is Path and not value and setting.default != Path():  # as of an unset variable
        raise ConfigError(f"{place} is empty; expected {_expected(setting)}")
    if kind is bool:
        if value.lower() not in _TRUE + _FALSE:
            raise ConfigError(f"{place} is {value!r}; expected true or false")
        return value.lower() in _TRUE
    try:
        parsed = parse_duration(value) if kind is float else kind(value)
        if isinstance(parsed, Path):
            parsed = parsed.expanduser()
            if value and parsed == Path():  # else the default of `keys_dir`
                parsed = Path.cwd()
    except (ValueError, RuntimeError) as error:  # there is no such user
        raise ConfigError(f"{place} is {value!r}; expected {_expected(setting)}") from error
    _check(place, parsed, setting)
    return parsed


# TOML has no paths. Each float is a duration.
_WRITTEN_AS_TEXT: Final = (Path, float)

# The largest number in JSON, and ten years.
_MOST: Final = 2**53
_MOST_S: Final = 10 * 366 * 86_400
_EXPECTED: Final[dict[Any, str]] = {
    int: f"a whole number, {{least}} to {_MOST}",
    float: f"a duration of at most ten years: {EXAMPLES}",
    bool: "true or false",
    str: "a text",
    Path: "a path",
}


# The fields of a repeat count as items. A client's first message has a name that it may have made.
_LEAST: Final = {
    "max_memory": 0,
    "max_items": 10,
    "max_message_bytes": 1000,
    "max_text_bytes": 64,
}


def _least(setting: Field[Any]) -> int:
    return _LEAST.get(setting.name, 1)


def _check(place: str, value: Any, setting: Field[Any]) -> None:
    kind: Any = setting.type
    if isinstance(value, str) and value.encode(errors="ignore").decode() != value:
        # Not shown: it may have a password.
        raise ConfigError(f"{place} has a character that is not UTF-8; expected a text in UTF-8")
    if isinstance(value, str | Path) and "\0" in str(value):
        raise ConfigError(f"{place} has a null character; expected {_expected(setting)} without")
    if kind is float:
        fine = isinstance(value, int | float) and 0 <= value <= _MOST_S
    elif kind is int:
        fine = isinstance(value, int) and _least(setting) <= value <= _MOST
    else:
        fine = isinstance(value, kind)
    if not fine or (kind is not bool and isinstance(value, bool)):
        found = str(value).lower() if isinstance(value, bool) else repr(value)  # as TOML has it
        raise ConfigError(f"{place} is {found}; expected {_expected(setting)}")


def _expected(setting: Field[Any]) -> str:
    return _EXPECTED[setting.type].format(least=_least(setting))
