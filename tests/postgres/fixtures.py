"""Fixtures: a server for each process of tests, and a new database for each test."""

import itertools
import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.postgres.cluster import PostgresCluster, remove_template
from tests.postgres.programs import MISSING, is_installed

__all__ = [
    "postgres",
    "postgres_cluster",
    "postgres_server",
    "postgres_template",
    "synchronous_cluster",
]

_numbers = itertools.count(1)


class Database(NamedTuple):
    """A database of a test's own, on a server that other tests use as well."""

    url: str
    name: str
    cluster: PostgresCluster

    def execute(self, sql: str, *arguments: object) -> list[tuple]:
        """Run one statement in a session of its own; returns its rows."""
        return self.cluster.primary.execute(sql, *arguments, database=self.name)


def need_postgres() -> None:
    """Skip where PostgreSQL is missing; CI has to have it."""
    if is_installed():
        return
    assert not os.environ.get("CI"), MISSING
    pytest.skip(MISSING)


@pytest.fixture(scope="session")
def postgres_template() -> Iterator[None]:
    """What servers are copied from; tests that use none make none."""
    need_postgres()
    yield
    remove_template()


@pytest.fixture(scope="session")
def postgres_server(postgres_template: None) -> Iterator[PostgresCluster]:
    """One server, started by the first test that wants one. Tests may not stop it."""
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture
def postgres(postgres_server: PostgresCluster) -> Iterator[Database]:
    """A new database, gone after the test."""
    name = f"test_{next(_numbers)}"
    postgres_server.primary.execute(f"CREATE DATABASE {name}")
    yield Database(postgres_server.url_of(name), name, postgres_server)
    postgres_server.primary.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_cluster(postgres_template: None) -> Iterator[PostgresCluster]:
    """A server of the test's own, which it may kill."""
    with PostgresCluster() as cluster:
        yield cluster


@pytest.fixture
def synchronous_cluster(postgres_template: None) -> Iterator[PostgresCluster]:
    """A primary and a synchronous standby of the test's own."""
    with PostgresCluster(standby="synchronous") as cluster:
        yield cluster
