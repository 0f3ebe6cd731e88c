"""A worker that a finalizer stops while the interpreter exits."""

import pytest

from tests._purgatory_cpython.test_at_exit import output

MAKE = [
    "from purgatory.service.worker.worker import Worker",
    "self.owned = Worker('tcp://127.0.0.1:1', name='w')",
    "self.owned.on('mail')(slow)",
    "self.owned.start()",
]


@pytest.mark.parametrize("stop", ["self.owned.stop()", "self.owned.stop(1)", "self.owned.wait()"])
def test_stop_returns(stop):
    """None of its threads runs any more."""
    printed, errors = output(MAKE, stop)
    assert printed == "closed in time\n", errors
