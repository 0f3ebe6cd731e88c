"""What clients ask of repeats."""

import pytest

from purgatory.service.encoding import encode
from purgatory.service.job_messages import ChangeRepeat, ReadRepeats, Repeat, SetRepeat
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.repeats import repeat_requests
from tests.testing.repeat_server import DAY, MINUTE, SECOND
from tests.testing.step_server import START_MS, nested


def ask_own_only(server, request, client="c"):
    """Send a request of a key that is limited to its own client name."""
    server.store_loop.mailbox.send(ClientRequest(b"r", client, request, 1, "", True))
    [answer] = server.step()[0]
    return answer


def listed(server, **others):
    """Return client and name of all repeats of a list, page by page."""
    found, after = [], None
    while True:
        answer = server.ask(ReadRepeats, after, *others.values())
        found += [(one.client, one.repeat.name) for one in answer.repeats]
        after = answer.after
        if after is None:
            return found


class TestDeclaring:
    def test_settings_are_replaced(self, server):
        """The name is one repeat; what was counted stays."""
        server.repeat(every_ms=SECOND, kind="")
        server.sleep(2 * SECOND + 10)
        assert server.repeat(every_ms=SECOND, kind="other", payload=[7]).skipped == 1
        state = server.state_of()
        assert (state.repeat.kind, bytes(state.repeat.payload)) == ("other", encode([7]))
        assert listed(server) == [("c", "r")]

    def test_it_is_on_disk(self, server):
        """With all that was declared."""
        settings = {
            "cron": "5 4 * * MON",
            "tz": "Asia/Tokyo",
            "kind": "k",
            "overlap": "allow",
            "missed": "none",
            "jitter_ms": 700,
        }
        state = server.repeat(payload={"a": 1}, **settings)
        server.crash()
        assert server.state_of() == state
        for name, value in settings.items():
            assert getattr(state.repeat, name) == value

    def test_a_paused_one_stays_paused(self, server):
        """A program that starts anew does not undo what an operator did."""
        server.repeat(every_ms=SECOND)
        server.change("pause")
        assert server.repeat(every_ms=2 * SECOND).paused
        server.crash()
        server.sleep(10 * SECOND)
        assert server.state_of().paused
        assert server.leased_at == []

    @pytest.mark.parametrize(
        ("settings", "code", "words"),
        [
            ({}, "malformed", "expected one of them"),
            ({"cron": "* * * * *", "every_ms": 1000}, "malformed", "expected one of them"),
            ({"cron": "61 * * * *"}, "malformed", "cron is '61 * * * *'"),
            ({"cron": "0 0 30 2 *"}, "malformed", "cron is '0 0 30 2 *'"),
            ({"cron": "* * * * *", "tz": "Mars/Base"}, "malformed", "tz is 'Mars/Base'"),
            ({"every_ms": 0}, "malformed", "every is 0.0 s; expected 0.01 s or more"),
            ({"every_ms": -5}, "malformed", "every is -0.005 s"),
            ({"every_ms": 10**11}, "too-long", "every is 100000000.0 s; expected at most"),
            (
                {"every_ms": 1000, "jitter_ms": -1},
                "malformed",
                "jitter is -0.001 s; expected 0 to 1.0 s",
            ),
            ({"every_ms": 1000, "jitter_ms": 1001}, "malformed", "jitter is 1.001 s"),
            ({"cron": "* * * * *", "jitter_ms": DAY + 1}, "malformed", "jitter is"),
            ({"every_ms": 1000, "overlap": "x"}, "malformed", "overlap is 'x'; expected one of"),
            ({"every_ms": 1000, "missed": "x"}, "malformed", "missed is 'x'; expected one of"),
            ({"every_ms": 1000, "payload": "x" * 1000}, "too-large", "payload of"),
            (
                {"every_ms": 1000, "payload": nested(501)},
                "malformed",
                "payload is nested too deeply",
            ),
            ({"every_ms": 1000, "kind": "x" * 1001}, "too-large", "has more than"),
            ({"every_ms": 1000, "name": ""}, "malformed", "is empty"),
            ({"every_ms": 1000, "name": "é" * 470}, "too-large", "has more than 936 bytes"),
        ],
    )
    def test_bad_settings_are_named(self, server, settings, code, words):
        """With what was expected; nothing changes."""
        answer = server.repeat(**settings)
        assert answer.code == code
        assert words in answer.message
        assert listed(server) == []

    def test_there_are_only_so_many(self, server, monkeypatch):
        """Of a client, and of all; one that is there may still be declared."""
        monkeypatch.setattr(repeat_requests, "MOST_OF_A_CLIENT", 2)
        monkeypatch.setattr(repeat_requests, "MOST", 3)
        server.repeat("a", every_ms=SECOND)
        server.repeat("b", every_ms=SECOND)
        answer = server.repeat("c", every_ms=SECOND)
        assert answer.code == "too-many-repeats"
        assert answer.message == "client 'c' has 2 repeats; expected at most 2"
        assert server.repeat("b", every_ms=MINUTE).next_ms == START_MS + MINUTE
        server.repeat("a", every_ms=SECOND, client="d")
        assert server.repeat("a", every_ms=SECOND, client="e").code == "too-many-repeats"
        server.change("delete", "a")
        server.repeat("a", every_ms=SECOND, client="e")
        assert listed(server) == [("c", "b"), ("d", "a"), ("e", "a")]

    def test_several_in_one_transaction(self, server, monkeypatch):
        """The bound holds there, too."""
        monkeypatch.setattr(repeat_requests, "MOST_OF_A_CLIENT", 2)
        for name in "abc":
            server.post(SetRepeat, Repeat(name, every_ms=SECOND))
        answers, _ = server.step()
        assert [getattr(one, "code", "") for one in answers].count("too-many-repeats") == 1
        assert len(listed(server)) == 2

    def test_they_take_memory(self, server):
        """One for which there is no room is refused, and changes nothing."""
        before = server.state.memory_bytes
        server.repeat(every_ms=SECOND, payload="x" * 500)
        assert server.state.memory_bytes - before == server.state.repeats.bytes > 500
        server.state.max_memory = server.state.memory_bytes + 1000
        answer = server.repeat("s", every_ms=SECOND)
        assert answer.code == "too-much-memory"
        smaller = server.repeat(every_ms=SECOND, payload="x" * 400)
        assert bytes(smaller.repeat.payload) == encode("x" * 400)
        server.change("delete")
        assert server.state.repeats.bytes == 0


class TestChanging:
    def test_pause_and_resume(self, server):
        """No time comes while it is paused; the rhythm goes on."""
        server.repeat(every_ms=SECOND, missed="none")
        answer = server.change("pause")
        assert (answer.done, answer.state.paused, answer.state.next_ms) == (True, True, None)
        assert server.change("pause").done
        server.crash()
        server.work()
        server.sleep(5 * SECOND + 500)
        assert server.leased_at == []
        answer = server.change("resume")
        assert (answer.done, answer.state.paused) == (True, False)
        assert answer.state.next_ms == START_MS + 6 * SECOND
        assert server.change("resume").done
        server.sleep(SECOND)
        assert server.names() == ["2001-09-09T01:46:46Z"]

    def test_what_a_resumed_one_has_missed_runs_at_once(self, server):
        """The answer tells its next time already."""
        server.repeat(every_ms=SECOND)
        server.change("pause")
        server.sleep(5 * SECOND + 500)
        assert server.change("resume").state.next_ms == START_MS + 6 * SECOND
        server.sleep(1)
        assert server.names() == ["2001-09-09T01:46:41Z"]

    def test_delete(self, server):
        """It runs no more, also after a restart; its job goes on."""
        server.repeat(every_ms=SECOND)
        server.sleep(SECOND + 1)
        answer = server.change("delete")
        assert (answer.done, answer.state) == (True, None)
        assert not server.change("delete").done
        assert server.finish(*server.begun) == [True]
        server.crash()
        server.work()
        server.sleep(5 * SECOND)
        assert len(server.leased_at) == 1
        assert server.state_of() is None

    def test_run(self, server):
        """A run more, at once; the rhythm stays, also of one that is paused."""
        server.repeat(every_ms=MINUTE, overlap="allow")
        server.change("pause")
        server.sleep(SECOND)
        assert server.change("run").done
        assert server.change("run").done
        server.sleep(1)
        assert server.names() == ["2001-09-09T01:46:41Z", "2001-09-09T01:46:41Z#2"]
        server.change("resume")
        state = server.state_of()
        assert (state.next_ms, state.last_ms) == (START_MS + MINUTE, START_MS + SECOND)

    def test_none_is_run_while_one_is_running(self, server):
        """Unless overlaps are allowed: it is skipped, and the answer says so."""
        server.repeat(every_ms=MINUTE)
        assert server.change("run").done
        server.sleep(1)
        answer = server.change("run")
        assert (answer.done, answer.state.skipped) == (False, 1)
        server.finish_all()
        assert server.change("run").done

    def test_run_is_refused_where_a_job_is(self, make_server):
        """There are too many operations."""
        server = make_server(pending=0)
        server.repeat(every_ms=MINUTE)
        assert server.change("run").code == "too-many-pending"

    def test_a_request_that_is_sent_again_is_done_once(self, server):
        """Its answer is remembered, also over a restart."""
        server.repeat(every_ms=MINUTE, overlap="allow")
        server.ask(ChangeRepeat, "r", "run", session="s", seq=900)
        server.ask(ChangeRepeat, "r", "run", session="s", seq=900)
        server.crash()
        assert server.ask(ChangeRepeat, "r", "run", session="s", seq=900).done
        assert len(server.state.known) == 1

    def test_unknown_names_and_words(self, server):
        """There is no such repeat; there is no such change."""
        assert not any(server.change(what).done for what in ("pause", "resume", "run", "delete"))
        answer = server.change("stop")
        assert answer.code == "malformed"
        assert "expected one of ('pause', 'resume', 'delete', 'run')" in answer.message


class TestOfOtherClients:
    def test_they_are_apart(self, server):
        """The same name is another repeat; a client's own is meant where none is named."""
        server.repeat(every_ms=SECOND)
        server.repeat(every_ms=MINUTE, client="d")
        server.change("pause")
        assert not server.state_of(client="d").paused
        assert server.ask(ChangeRepeat, "r", "delete", "d").done
        assert listed(server) == [("c", "r")]

    def test_a_limited_key_sees_and_changes_its_own_only(self, server):
        """Others are unknown to it."""
        server.repeat(every_ms=SECOND)
        server.repeat(every_ms=SECOND, client="d")
        answer = ask_own_only(server, ChangeRepeat(50, "r", "pause", "d"))
        assert (answer.done, answer.state) == (False, None)
        assert ask_own_only(server, ChangeRepeat(51, "r", "pause", "c")).done
        own = [one.client for one in ask_own_only(server, ReadRepeats(52)).repeats]
        assert own == ["c"]
        assert ask_own_only(server, ReadRepeats(53, None, 9, "d")).repeats == []
        assert ask_own_only(server, ReadRepeats(54, None, 9, "d", "r")).repeats == []


class TestReading:
    def test_page_by_page(self, server):
        """In order of clients and names, all of them once."""
        keys = [(client, name) for client in ("a", "b") for name in ("r1", "r2", "r3")]
        for client, name in reversed(keys):
            server.repeat(name, client=client, every_ms=SECOND)
        assert listed(server, limit=1) == keys
        assert listed(server, limit=4) == keys
        assert listed(server, limit=100, client="b") == keys[3:]
        assert listed(server, limit=1, client=None, name="r2") == [("a", "r2"), ("b", "r2")]

    def test_large_ones(self, make_server, monkeypatch):
        """A page has a bounded size, and one repeat at least."""
        monkeypatch.setattr(repeat_requests, "LISTED_BYTES", 10_000)
        server = make_server(payload_bytes=100_000)
        for name in "abc":
            server.repeat(name, every_ms=SECOND, payload="x" * 20_000)
        answer = server.ask(ReadRepeats)
        assert [one.repeat.name for one in answer.repeats] == ["a"]
        assert listed(server) == [("c", name) for name in "abc"]
