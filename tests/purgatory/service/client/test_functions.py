"""Functions that programs pass: whether they are async, can run, and have run."""

import asyncio
import concurrent.futures
import functools

import pytest

from purgatory.service import AsyncClient, Client, Worker
from purgatory.service.client.functions import check_function, refuse_unfinished


async def run_async(_):
    """Do nothing."""


def run(_):
    """Do nothing."""


def generate(_):
    yield


async def generate_async(_):
    yield


class Call:
    """An object that is called as a function is."""

    def __init__(self, function):
        self.function = function

    def __call__(self, job):
        return self.function(job)


class AsyncCall:
    """One that is awaited."""

    async def __call__(self, _):
        """Do nothing."""


class GeneratorCall:
    """One that yields."""

    def __call__(self, _):
        yield


FUNCTIONS = [(run, False), (Call(run), False), (run_async, True), (AsyncCall(), True)]


@pytest.mark.parametrize(("function", "is_async"), FUNCTIONS)
def test_functions(function, is_async):
    """Whether it is to be awaited: it, its part, or what it is called as."""
    assert check_function("handler", function) is is_async
    assert check_function("handler", functools.partial(functools.partial(function))) is is_async


@pytest.mark.parametrize("function", [generate, generate_async, GeneratorCall(), 5, None])
@pytest.mark.parametrize(
    "use",
    [
        lambda function: check_function("it", function),
        lambda function: Worker("tcp://127.0.0.1:1", name="w").on("kind")(function),
        lambda function: Client("tcp://127.0.0.1:1", on_outcome=function or 0),
        lambda function: AsyncClient("tcp://127.0.0.1:1", on_outcome=function or 0),
    ],
    ids=["check", "worker", "client", "async client"],
)
def test_what_is_refused(function, use):
    """A generator function runs no line when it is called: it is refused where it is passed."""
    with pytest.raises(TypeError, match="expected"):
        use(function)


@pytest.mark.parametrize("result", [None, 5, [], "text", map(str, [])])
def test_results(result):
    """A value is one."""
    refuse_unfinished("it", result)


def test_what_has_not_run():
    """Coroutines, generators and futures are no results; coroutines are closed without a word."""
    loop = asyncio.new_event_loop()
    pending = [loop.create_future(), concurrent.futures.Future()]
    for result in (run_async(1), generate(1), generate_async(1), *pending):
        with pytest.raises(TypeError, match=r"it returned <.* not run to its end"):
            refuse_unfinished("it", result)
    loop.close()
