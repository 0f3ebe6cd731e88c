"""KeyStore: CURVE key pairs of servers and clients, and a server's allow list.

A directory readable only by its owner:

    server.key_secret   public and secret key; a client's pair is on the client's machine
    server.key          the public key, for clients
    allowed             the allow list: public key, name and limits of a client in each line

Key files are those of pyzmq's `zmq.auth`. Files are written atomically: threads and processes may
share a directory.
"""

import contextlib
import fcntl
import os
import re
import stat
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import zmq
from zmq.auth import load_certificate
from zmq.utils import z85

from purgatory.service.auth.access import Access
from purgatory.service.errors import KeysError

SERVER: Final = "server"
_ALLOWED: Final = "allowed"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_HEAD: Final = (
    "# Allowed clients: public key, name and, if limited, names=... rights=...\n"
    "# `purgatory keys allow` adds to it.\n"
)


class KeyPair(NamedTuple):
    """A CURVE key pair, in ZeroMQ's Z85 form."""

    public: bytes
    secret: bytes


class KeyStore:
    """The keys in `directory`, made with the first key. Methods raise KeysError."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def new(self, name: str) -> KeyPair:
        """Make and write a key pair. Raises KeysError if the name has one."""
        check_name(name)
        pair = _new_pair()
        make_directory_of_keys(self.directory)
        secret = self.directory / f"{name}.key_secret"
        try:
            _create(secret, _certificate(name, pair.public, pair.secret))
        except FileExistsError as error:
            raise KeysError(f"{secret}: a key of this name exists already") from error
        write_private(self.directory / f"{name}.key", _certificate(name, pair.public))
        return pair

    def pair(self, name: str) -> KeyPair:
        """Read the key pair of a name."""
        check_name(name)
        return read_pair(self.directory / f"{name}.key_secret")

    def names(self) -> list[str]:
        """Return the names of key pairs, sorted."""
        return sorted(path.stem for path in self.directory.glob("*.key_secret"))

    def allow(self, name: str, public: bytes, access: Access | None = None) -> bool:
        """Allow a client, or change its access; False if unchanged. A server has to reload.

        Without `access` a known client keeps its rights, and a new client has all. Raises KeysError
        if the name exists with another key, or the key with another name.
        """
        check_name(name)
        check_public(public)
        if access is not None and access.label != name:
            raise KeysError(f"access is of {access.label!r}; expected {name!r}, the client's name")
        with changing(self.directory):
            return self._allow(name, public, access)

    def _allow(self, name: str, public: bytes, access: Access | None) -> bool:
        allowed = dict(self.allowed())
        before = allowed.pop(public, None)
        if before is not None and before.label != name:
            raise KeysError(f"this key is already allowed, as {before.label!r}")
        if any(one.label == name for one in allowed.values()):
            raise KeysError(f"{name!r} is already allowed, with another key; revoke it first")
        wanted = access or before or Access(name)
        if wanted == before:
            return False
        self._write_allowed({**allowed, public: wanted})
        return True

    def revoke(self, name: str) -> bool:
        """Remove a client from the allow list; False if absent."""
        if not self.directory.exists():
            return False
        with changing(self.directory):
            allowed = self.allowed()
            kept = {key: one for key, one in allowed.items() if one.label != name}
            if len(kept) == len(allowed):
                return False
            self._write_allowed(kept)
        return True

    def allowed(self) -> Mapping[bytes, Access]:
        """Read the allow list, by public key."""
        path = self.directory / _ALLOWED
        try:
            entries = read_entries(path, lambda key: check_public(key.encode()))
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from error
        return {key.encode(): access for key, access in entries}

    def _write_allowed(self, allowed: Mapping[bytes, Access]) -> None:
        entries = ((key.decode(), access) for key, access in allowed.items())
        write_entries(self.directory / _ALLOWED, _HEAD, entries)


def _new_pair() -> KeyPair:
    """Make a key pair; a public key with a first "-" would look like an option."""
    while True:
        pair = KeyPair(*zmq.curve_keypair())
        if not pair.public.startswith(b"-"):
            return pair


def make_directory_of_keys(directory: Path) -> None:
    """Make a private directory, with parents. Raises KeysError."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise KeysError(f"{directory}: {error.strerror}") from error


@contextlib.contextmanager
def changing(directory: Path) -> Iterator[None]:
    """Make a directory of keys, and let one thread at a time change its lists. Raises KeysError.

    Without the lock two processes would lose each other's lines.
    """
    make_directory_of_keys(directory)
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise KeysError(f"{directory}: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(descriptor)


def read_pair(path: Path) -> KeyPair:
    """Read a key pair. Raises KeysError, also if others may read the file."""
    try:
        mode = path.stat().st_mode
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_IMODE(mode) & 0o077:
        raise KeysError(f"{path}: other users may read this secret key; run chmod 600 on the file")
    if secret is None:
        raise KeysError(f"{path}: has no secret key")
    check_public(public)
    check_public(secret)
    return KeyPair(public, secret)


def read_public(text: str) -> bytes:
    """Return a public key, given itself or its file. Raises KeysError."""
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
    """Raise KeysError unless `key` is in Z85."""
    try:
        fine = len(key) == 40 and len(z85.decode(key)) == 32
    except (KeyError, ValueError, struct.error):  # bad characters, or too large a number
        fine = False
    if not fine:
        raise KeysError(f"{key.decode('ascii', 'replace')!r} is not a key; expected 40 characters")


def check_name(name: str) -> None:
    """Raise KeysError unless `name` can name a key."""
    if not _NAME.fullmatch(name):
        raise KeysError(
            f"{name!r} is not a valid name; expected letters, digits and . _ -, at most 64"
        )


def _certificate(name: str, public: bytes, secret: bytes | None = None) -> str:
    lines = ["metadata", f'    name = "{name}"', "curve", f'    public-key = "{public.decode()}"']
    if secret is not None:
        lines.append(f'    secret-key = "{secret.decode()}"')
    return "".join(f"{line}\n" for line in lines)


def _create(path: Path, text: str) -> None:
    """Write a new private file, atomically. Raises FileExistsError, KeysError."""
    hidden = path.with_name(f".{path.name}-{os.getpid()}-{threading.get_ident()}")
    try:
        try:
            descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  # a descriptor
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


def write_private(path: Path, text: str) -> None:
    """Write or replace a file readable only by its owner, atomically. Raises KeysError."""
    fresh = path.with_name(f".{path.name}-{os.getpid()}-{threading.get_ident()}-new")
    fresh.unlink(missing_ok=True)
    _create(fresh, text)
    fresh.replace(path)


def read_entries(path: Path, check_key: Callable[[str], None]) -> list[tuple[str, Access]]:
    """Read key, name and limits from each line of a file, except comments.

    Raises KeysError, OSError and UnicodeDecodeError.
    """
    entries = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):  # no key begins with #
            continue
        key, name, *options = [*line.split(), ""] if len(line.split()) == 1 else line.split()
        try:
            check_key(key)
            check_name(name)
            entries.append((key, Access.parse(name, options)))
        except KeysError as error:
            raise KeysError(f"{path}, line {number}: {error}") from error
    return entries


def write_entries(path: Path, head: str, entries: Iterable[tuple[str, Access]]) -> None:
    """Write a file for `read_entries`, within `changing`. Raises KeysError."""
    lines = []
    for key, access in entries:
        check_name(access.label)  # the reader refuses a file with another name
        lines.append(" ".join([key, access.label, *access.options()]) + "\n")
    write_private(path, head + "".join(lines))


def _unreadable(path: Path, error: Exception) -> KeysError:
    what = error.strerror if isinstance(error, OSError) and error.strerror else None
    if what is None:
        missing = "not found; `purgatory keys new NAME` makes a pair"
        what = missing if not path.exists() else "not a file of keys"
    return KeysError(f"{path}: {what}")
