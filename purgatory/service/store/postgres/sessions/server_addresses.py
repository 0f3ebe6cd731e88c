"""Server addresses: a session's settings, for each host. Any thread."""

from typing import Any, Final

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from purgatory.errors import StoreError

# So the kernel gives up a dead host after seconds, not two hours.
_DEFAULTS: Final = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # Some hosts may be standbys of the database.
    "target_session_attrs": "read-write",
}
_EXPECTED: Final = "expected postgresql://user:password@host/database, with % as %25 and / as %2F"
#: Limits of the database; a pooler may refuse them.
SESSION_OPTIONS: Final = (
    "-c statement_timeout=60s -c lock_timeout=30s -c idle_in_transaction_session_timeout=30s"
)


def addresses_of(url: str, session_name: str, *, options: bool = True) -> list[bytes]:
    """Return libpq's settings for a session of this name, for each host of `url`.

    `options`: ask for `SESSION_OPTIONS`. Raises StoreError.
    """
    try:
        given = conninfo_to_dict(url)
    except (Error, ValueError) as error:
        # libpq quotes a part of the URL, perhaps the password.
        reason = str(error).strip().partition(': "')[0]
        raise StoreError(f"the URL of the store: {reason}; {_EXPECTED}") from None
    settings: dict[str, Any] = {**_DEFAULTS, **given}
    settings |= {"application_name": session_name, "client_encoding": "UTF8"}
    if options:
        settings["options"] = f"{SESSION_OPTIONS} {given.get('options') or ''}".strip()
    return [make_conninfo(**settings, **one).encode() for one in _hosts(settings)]


def _hosts(settings: dict[str, Any]) -> list[dict[str, str]]:
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
    """Return hosts, ports and database of a URL, without a password."""
    try:
        settings = conninfo_to_dict(url)
    except (Error, ValueError):
        return "postgresql://"
    hosts = ",".join(map(_shown_host, _hosts(settings)))
    return f"postgresql://{hosts}/{settings.get('dbname') or ''}"


def _shown_host(one: dict[str, str]) -> str:
    host, port = one.get("host") or one.get("hostaddr") or "", one.get("port")
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port}" if port else host
