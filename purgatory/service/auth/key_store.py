"""KeyStore: the CURVE key pairs of servers and clients, and the list of clients that are let in.

A directory, for its owner's eyes alone::

    server.key_secret   public and secret key; clients have such a file too, elsewhere
    server.key          the public key alone, to be handed on
    allowed             a line for each client that is let in: its public key, its name

The key files are those of pyzmq's `zmq.auth`. Any thread and any process may use a directory: files
appear whole or not at all.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import zmq
from zmq.auth import load_certificate
from zmq.utils import z85

from purgatory.service.errors import ServiceError

#: The name of the server's own pair.
SERVER: Final = "server"
_ALLOWED: Final = "allowed"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_HEAD: Final = "# Clients that are let in: public key, name. `purgatory keys allow` adds to it.\n"


class KeysError(ServiceError):
    """A key is missing, there already, or none; a file of keys may be read by others."""


class KeyPair(NamedTuple):
    """A CURVE key pair, in ZeroMQ's Z85 form."""

    public: bytes
    secret: bytes


class KeyStore:
    """The keys in a directory, which is made when the first is. Raises KeysError."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def new(self, name: str) -> KeyPair:
        """Make a pair and write it; KeysError if there is one of that name."""
        _check_name(name)
        pair = KeyPair(*zmq.curve_keypair())
        self._make_directory()
        secret = self.directory / f"{name}.key_secret"
        try:
            _create(secret, _certificate(name, pair.public, pair.secret))
        except FileExistsError as error:
            raise KeysError(f"{secret}: there is a key of this name already") from error
        _write(self.directory / f"{name}.key", _certificate(name, pair.public))
        return pair

    def pair(self, name: str) -> KeyPair:
        """The pair of a name."""
        _check_name(name)
        return read_pair(self.directory / f"{name}.key_secret")

    def names(self) -> list[str]:
        """The names of all pairs, in order."""
        return sorted(path.stem for path in self.directory.glob("*.key_secret"))

    def allow(self, name: str, public: bytes) -> bool:
        """Let a client in, from the server's next look at the list on.

        False if this very client is let in already; KeysError if the name or the key is another's.
        """
        _check_name(name)
        check_public(public)
        allowed = dict(self.allowed())
        if allowed.get(public) == name:
            return False
        if public in allowed:
            raise KeysError(f"this key is let in already, as {allowed[public]!r}")
        if name in allowed.values():
            raise KeysError(f"{name!r} is let in already, with another key; revoke it first")
        self._write_allowed({**allowed, public: name})
        return True

    def revoke(self, name: str) -> bool:
        """Let a client in no longer; False if it was not."""
        allowed = self.allowed()
        kept = {key: one for key, one in allowed.items() if one != name}
        if len(kept) == len(allowed):
            return False
        self._write_allowed(kept)
        return True

    def allowed(self) -> Mapping[bytes, str]:
        """Public key -> name of the clients that are let in."""
        path = self.directory / _ALLOWED
        try:
            lines = path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        found: dict[bytes, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):  # no key does
                continue
            public, _, name = line.partition(" ")
            try:
                check_public(public.encode())
                _check_name(name.strip())
            except KeysError as error:
                raise KeysError(f"{path}, line {number}: {error}") from error
            found[public.encode()] = name.strip()
        return found

    def _write_allowed(self, allowed: Mapping[bytes, str]) -> None:
        self._make_directory()
        lines = [f"{public.decode()} {name}\n" for public, name in allowed.items()]
        _write(self.directory / _ALLOWED, _HEAD + "".join(lines))

    def _make_directory(self) -> None:
        try:
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise KeysError(f"{self.directory}: {error.strerror}") from error


def read_pair(path: Path) -> KeyPair:
    """The pair in a file that no one else may read. Raises KeysError."""
    try:
        mode = path.stat().st_mode
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_IMODE(mode) & 0o077:
        raise KeysError(f"{path}: others may read this secret key; chmod 600 it")
    if secret is None:
        raise KeysError(f"{path}: has no secret key")
    check_public(public)
    check_public(secret)
    return KeyPair(public, secret)


def read_public(text: str) -> bytes:
    """A public key: itself, 40 characters, or the path of a file that has it. Raises KeysError."""
    path = Path(text)
    if len(text) == 40 and not path.exists():
        check_public(text.encode())
        return text.encode()
    try:
        public, _ = load_certificate(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    check_public(public)
    return public


def check_public(key: bytes) -> None:
    """KeysError for what is no key in Z85."""
    try:
        fine = len(key) == 40 and len(z85.decode(key)) == 32
    except (KeyError, ValueError, struct.error):  # not Z85: characters, or more than 32 bits
        fine = False
    if not fine:
        raise KeysError(f"{key.decode('ascii', 'replace')!r} is no key; expected 40 characters")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise KeysError(f"{name!r} is no name; expected letters, digits and . _ -, at most 64")


def _certificate(name: str, public: bytes, secret: bytes | None = None) -> str:
    lines = ["metadata", f'    name = "{name}"', "curve", f'    public-key = "{public.decode()}"']
    if secret is not None:
        lines.append(f'    secret-key = "{secret.decode()}"')
    return "".join(f"{line}\n" for line in lines)


def _create(path: Path, text: str) -> None:
    """Make a file that its owner alone may read; FileExistsError if it is there."""
    hidden = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        try:
            descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  # it is open
                os.fchmod(descriptor, 0o600)
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            os.link(hidden, path)
        finally:
            hidden.unlink(missing_ok=True)
    except FileExistsError:
        raise
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Likewise, in the place of one that is there."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}-new")
    fresh.unlink(missing_ok=True)
    _create(fresh, text)
    fresh.replace(path)


def _unreadable(path: Path, error: Exception) -> KeysError:
    what = error.strerror if isinstance(error, OSError) and error.strerror else None
    if what is None:
        what = "not found" if not path.exists() else "not a file of keys"
    return KeysError(f"{path}: {what}")
