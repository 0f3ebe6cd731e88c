"""Server addresses: the settings with which a session is opened, one for each host. Any thread."""

from typing import Any, Final

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from purgatory.errors import StoreError

# The kernel gives a dead host up after seconds, not after two hours.
_DEFAULTS: Final = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # Of several hosts some may be standbys of the database, which read only.
    "target_session_attrs": "read-write",
}
#: What the database limits by itself, if the path to it lets the options pass.
SESSION_OPTIONS: Final = (
    "-c statement_timeout=60s -c lock_timeout=30s -c idle_in_transaction_session_timeout=30s"
)


def addresses_of(url: str, session_name: str, *, options: bool = True) -> list[bytes]:
    """Return what libpq needs to open a session named so, for each host of `url`.

    `options`: ask for `SESSION_OPTIONS`, which some poolers refuse. Raises StoreError.
    """
    try:
        given = conninfo_to_dict(url)
    except Error as error:
        raise StoreError(f"the URL of the store: {str(error).strip()}") from error
    settings: dict[str, Any] = {**_DEFAULTS, **given}
    settings |= {"application_name": session_name, "client_encoding": "UTF8"}
    if options:
        settings["options"] = f"{SESSION_OPTIONS} {given.get('options') or ''}".strip()
    return [make_conninfo(**settings, **one).encode() for one in _hosts(settings)]


def _hosts(settings: dict[str, Any]) -> list[dict[str, str]]:
    """Take the hosts out of settings; one without any is libpq's default."""
    lists = {
        name: str(settings.pop(name)).split(",")
        for name in ("host", "hostaddr", "port")
        if settings.get(name)
    }
    count = max((len(values) for values in lists.values()), default=1)
    return [
        {name: values[at] if at < len(values) else values[-1] for name, values in lists.items()}
        for at in range(count)
    ]


def shown_url(url: str) -> str:
    """Return the URL as logs and errors show it: hosts and database, without a password."""
    try:
        settings = conninfo_to_dict(url)
    except Error:
        return "postgresql://"
    hosts = settings.get("host") or settings.get("hostaddr") or ""
    return f"postgresql://{hosts}/{settings.get('dbname') or ''}"
