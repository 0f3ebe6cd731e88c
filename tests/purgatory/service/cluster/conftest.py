"""The fixtures of the cluster's tests: a lease in memory, and a clock that the test sets."""

import pytest

from tests.testing.fake_lease import FakeLeaseTable, ManualBoot


@pytest.fixture
def boot():
    """The boot clock of the server and of the database."""
    return ManualBoot()


@pytest.fixture
def table(boot):
    """A database whose lease nobody has."""
    return FakeLeaseTable(boot)
