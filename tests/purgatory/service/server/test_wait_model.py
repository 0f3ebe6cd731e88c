"""A server and `WaitModel`; `test_model` has one of its own, with crashes and failing commits."""

from tests.testing.step_server import StepServer, operation, result
from tests.testing.wait_machine import WaitMachine, run


class ServerSystem:
    """Sends a server requests, one in each transaction. A subject is the id of an operation."""

    def __init__(self):
        self.server = StepServer(None)
        self.server.hello()
        self.ids = 0
        self.endings = {}

    def submit(self, keys, timeout_ms, need):
        self.ids += 1
        op_id = str(self.ids)
        answer = self.server.submit(
            operation(op_id, *map(str, keys), timeout_ms=timeout_ms, need=need)
        )
        assert not answer.refused
        return op_id

    def extend(self, subject, timeout_ms):
        [done] = self.server.extend(subject, timeout_ms).done
        return done

    def complete(self, key, value, limit, hold_ms):
        [count] = self.server.complete(str(key), value, limit, hold_ms).counts
        return count

    def fail(self, key, message):
        [count] = self.server.fail(str(key), "Error", message).counts
        return count

    def cancel(self, subject):
        [done] = self.server.cancel(subject).done
        return done

    def advance(self, ms):
        self.server.pass_time(ms)

    def ending(self, subject):
        return self.endings.get(subject, (None, None))

    def figures(self):
        return self.server.state.purgatory.delayed, len(self.server.state.held)

    def check(self):
        """Check the purgatory, and read the outcomes that are new."""
        self.server.state.purgatory._check()
        for outcome in self.server.fetch_outcomes(after=len(self.endings)):
            assert outcome.op_id not in self.endings
            self.endings[outcome.op_id] = ending(outcome)

    def close(self):
        self.server.store.close()


def ending(outcome):
    """Return the outcome of an operation, and its result."""
    found = result(outcome)
    if outcome.outcome == "failed":
        _, found = found
    elif outcome.outcome == "completed" and isinstance(found, dict):
        found = {int(key): value for key, value in found.items()}
    return outcome.outcome, found


class Machine(WaitMachine):
    """A moment of its own for each call: of one key a millisecond has one event only."""

    grace_ms = 1  # in the millisecond of its deadline an operation still completes

    def make_system(self):
        return ServerSystem()

    def before_call(self):
        self.advance(1)


def test_it_agrees_with_the_model():
    """The server and the model agree after any sequence of calls."""
    run(Machine)
