"""The event loops that everything here is tested on."""

import asyncio

import pytest


def loop_factory(name):
    """Return what makes a loop; skip the test where there is no such loop."""
    if name == "asyncio":
        return asyncio.new_event_loop
    return pytest.importorskip(name, reason=f"no {name} for this Python").new_event_loop


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Run a coroutine in a new loop; nothing may be left in it, and nothing be reported."""
    factory = loop_factory(request.param)

    def run_coroutine(coroutine):
        reported = []

        async def main():
            asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))
            result = await asyncio.wait_for(coroutine, 60)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return result

        with asyncio.Runner(loop_factory=factory) as runner:
            result = runner.run(main())
        assert reported == []
        return result

    return run_coroutine
