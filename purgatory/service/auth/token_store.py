"""TokenStore: hashes of the tokens with which programs use a gateway.

A token is 32 random bytes, so its SHA-256 reveals nothing and needs no salt. A line of the file has
a hash, the client that owns the operations, and its limits. Any thread may use a store; methods
raise KeysError.
"""

import hashlib
import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from purgatory.service.auth.access import Access
from purgatory.service.auth.key_store import changing, check_name, read_entries, write_entries
from purgatory.service.errors import KeysError

#: Begins each token, so that scanners recognise leaked tokens.
PREFIX: Final = "ptk_"
_FILE: Final = "tokens"
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_HEAD: Final = "# Tokens of gateways: a hash, the client, what it may do. See `purgatory tokens`.\n"
#: Characters of a token's id.
ID_LENGTH: Final = 8


class Token(NamedTuple):
    """A line of the file; `hash` is hexadecimal."""

    hash: str
    access: Access

    @property
    def id(self) -> str:
        """The first characters of the hash; see `revoke`."""
        return self.hash[:ID_LENGTH]


class TokenStore:
    """The tokens in the keys' `directory`; follows changes of the file."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE
        self._version: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def new(self, access: Access) -> str:
        """Make a token for the client `access.label`; return its text, which is not stored."""
        check_name(access.label)
        token = PREFIX + secrets.token_urlsafe(32)
        with changing(self._path.parent):
            self._write([*self.all(), Token(_hashed(token), access)])
        return token

    def find(self, token: str) -> Access | None:
        """Return the access of a token; None: unknown or revoked."""
        self._refresh()
        found = self._tokens.get(_hashed(token))
        return None if found is None else found.access

    def all(self) -> list[Token]:
        """Return all tokens, oldest first."""
        self._refresh()
        return list(self._tokens.values())

    def revoke(self, name: str) -> int:
        """Remove a client's tokens, or the token with an id; return how many."""
        if not self._path.exists():
            return 0
        with changing(self._path.parent):
            before = self.all()
            kept = [token for token in before if name not in (token.id, token.access.label)]
            if len(kept) < len(before):
                self._write(kept)
        return len(before) - len(kept)

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            version = found.st_ino, found.st_mtime_ns, found.st_size
            if version != self._version:
                entries = read_entries(self._path, _check_hash)
                self._tokens = {key: Token(key, access) for key, access in entries}
                self._version = version
        except FileNotFoundError:
            self._version, self._tokens = None, {}
        except (OSError, UnicodeDecodeError) as error:
            raise KeysError(f"{self._path}: {error}") from error

    def _write(self, tokens: list[Token]) -> None:
        write_entries(self._path, _HEAD, ((token.hash, token.access) for token in tokens))


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _check_hash(text: str) -> None:
    if not _HASH.fullmatch(text):
        raise KeysError(f"{text!r} is not a hash; expected 64 hexadecimal digits")
