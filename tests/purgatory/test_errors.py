"""The errors of the package: caught by their base, by the library's like, and between processes."""

import concurrent.futures
import pickle

import pytest

from purgatory import errors


@pytest.mark.parametrize(
    ("error", "like"),
    [
        (errors.OperationExpired, TimeoutError),
        (errors.OperationCancelled, concurrent.futures.CancelledError),
        (errors.WrongEventLoop, RuntimeError),
    ],
)
def test_an_error_is_caught_as_the_librarys(error, like):
    """A program that knows the standard library's errors needs no others."""
    with pytest.raises(like, match="why"):
        raise error("why")
    assert issubclass(error, errors.PurgatoryError)


def test_a_store_error_says_whether_it_is_fatal():
    """Also where it was pickled on its way; it is not unless the store says so."""
    assert not errors.StoreError("full").fatal
    fatal = errors.StoreError("damaged", fatal=True)
    assert (str(fatal), fatal.fatal) == ("damaged", True)
    assert pickle.loads(pickle.dumps(fatal)).fatal
