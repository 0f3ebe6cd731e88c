"""KeyCheck: compares a server's keys with the active server's, at its start. One thread.

Clients know one public key of all servers. Without a check a wrong key would show only after a
takeover.
"""

import hashlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from purgatory.service.cluster.store_report import look_at_store
from purgatory.service.errors import KeysError
from purgatory.service.store.lease import LeaseRow

if TYPE_CHECKING:
    from purgatory.service.auth.authenticator import CurveAuthenticator

log: logging.Logger = logging.getLogger(__name__)

_NONE: Final = "none"


class KeyMark(NamedTuple):
    """A server's public key, or `none`, and a digest of its allow list."""

    public: str
    clients: str

    @classmethod
    def of(cls, authenticator: "CurveAuthenticator | None") -> Self:
        """Return the mark of a server."""
        if authenticator is None:
            return cls(_NONE, _NONE)
        lines = sorted(
            f"{key.decode()} {access.names} {access.rights}"
            for key, access in authenticator.allowed.items()
        )
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return cls(authenticator.public_key, digest[:16])

    @property
    def text(self) -> str:
        """The mark as the database has it; no part has a space."""
        return " ".join(self)


def check_keys(row: LeaseRow, mark: KeyMark, patience_s: float) -> None:
    """Compare with the active server's mark. Raises KeysError, StoreError.

    Another key is refused while an active server is alive, see `look_at_store`. Another allow list
    is a warning: the active server may have read a newer list meanwhile.
    """
    row.set_up()
    noted = row.server_keys().split(" ")
    if len(noted) != len(mark):  # no server was active yet
        return
    public, clients = noted
    if public != mark.public:
        report = look_at_store(row, patience_s)
        if report.is_alive:
            raise KeysError(
                f"the active server {report.seen.address} has the key {public}, this server "
                f"{mark.public}; expected the same: copy its keys directory"
            )
    elif clients != mark.clients:
        log.warning(
            "the allow list is not that with which the active server started: copy the newer one "
            "to all servers, or clients are refused after a takeover"
        )
