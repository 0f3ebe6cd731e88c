"""Where PostgreSQL's programs are, and as which user they run."""

import functools
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

#: Names a directory with `initdb` and `postgres`, if several versions are installed.
VARIABLE = "PURGATORY_POSTGRES_BIN"
MISSING = f"no PostgreSQL: install Debian's package `postgresql`, or set {VARIABLE}"


@functools.cache
def directory_of_programs() -> Path | None:
    """Find the newest PostgreSQL; None if there is none."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    if (on_path := shutil.which("initdb")) and shutil.which("postgres"):
        return Path(on_path).resolve().parent
    return None


def is_installed() -> bool:
    """Whether tests can start a server."""
    return directory_of_programs() is not None


@functools.cache
def server_user() -> pwd.struct_passwd | None:
    """Return whom a server runs as; None: as the tests, which are not root's."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("PostgreSQL refuses to run as root, and there is no other user")


def identity() -> dict[str, object]:
    """Return the arguments that make `subprocess` run something as the server's user."""
    user = server_user()
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def new_directory() -> Path:
    """Make a directory that the server's user can reach, which those of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="purgatory-postgres-"))
    own(path)
    return path


def own(path: Path) -> None:
    """Give a directory to the server's user."""
    if (user := server_user()) is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


def command(program: str, *arguments: object) -> list[str]:
    """Return the command line of one of PostgreSQL's programs."""
    directory = directory_of_programs()
    assert directory is not None, MISSING
    return [str(directory / program), *map(str, arguments)]


def run(program: str, *arguments: object) -> str:
    """Run one of PostgreSQL's programs as the server's user; returns what it printed."""
    ended = subprocess.run(
        command(program, *arguments),
        capture_output=True,
        text=True,
        timeout=100,
        cwd="/",
        **identity(),
    )
    assert ended.returncode == 0, f"{program} failed: {ended.stderr}{ended.stdout}"
    return ended.stdout


def version() -> int:
    """Return the major version."""
    return int(re.search(r"(\d+)", run("postgres", "--version"))[1])
