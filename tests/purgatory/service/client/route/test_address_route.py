"""AddressRoute: which address is next; and clients with several addresses in a simulated world."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory.service.client.route.address_route import ATTEMPT_S, ROUND_DELAY_S, AddressRoute
from purgatory.service.errors import RequestTimeout
from tests.testing.simulated_members import SimulatedMembers, address_of

A, B, C, X, Y = (address_of(host) for host in ("a", "b", "c", "x", "y"))


def most(low, high):
    """Return the longest delay there may be."""
    return high


def test_one_after_the_other():
    """A lost server is followed by the next at once; a round in vain by a pause, ever longer."""
    route = AddressRoute((A, B, C), most)
    assert (route.current, route.has_choice) == (A, True)
    route.note_welcome()
    found = [(route.advance(failed=False), route.current)]
    found += [(route.advance(), route.current) for _ in range(6)]
    first = ROUND_DELAY_S[0]
    assert found == [
        (0.0, B),
        (0.0, C),
        (0.0, A),
        (first, B),
        (0.0, C),
        (0.0, A),
        (2 * first, B),
    ]


def test_a_standby_names_the_active_server():
    """That one is next, wherever it is in the list, and also if it is not."""
    route = AddressRoute((A, B, C), most)
    assert (route.advance(C), route.current) == (0.0, C)
    assert (route.advance(X), route.current) == (0.0, X)
    assert (route.advance(), route.current) == (0.0, B)
    route.note_welcome()
    assert (route.advance(X), route.current) == (0.0, X)
    assert (route.advance(), route.current) == (0.0, C)  # the one after B, which named it


def test_an_address_is_learned_from_a_welcome_alone():
    """An address that was only named is forgotten; a learned one, too, once it fails."""
    route = AddressRoute((A,), most)
    assert not route.has_choice
    assert (route.advance(X), route.current) == (0.0, X)
    assert route.has_choice
    assert (route.advance(), route.current) == (ROUND_DELAY_S[0], A)
    assert not route.has_choice
    route.advance(X)
    route.note_welcome()
    assert (route.advance(failed=False), route.current) == (0.0, A)
    assert route.has_choice
    assert (route.advance(), route.current) == (0.0, X)
    assert (route.advance(), route.current) == (ROUND_DELAY_S[0], A)
    assert not route.has_choice


@pytest.mark.parametrize("named", [A, "", "tcp://0.0.0.0:7411", "nonsense", "ipc:///etc/x"])
def test_a_standby_that_names_nothing_of_use(named):
    """Itself, nobody, or what no client can reach: the next of the list it is."""
    route = AddressRoute((A, B), most)
    assert (route.advance(named), route.current) == (0.0, B)


def test_standbys_that_name_each_other():
    """They cost a round each, with a pause; others get their turn."""
    route = AddressRoute((A, B, C), most)
    tried, delays = [], []
    for _ in range(9):
        tried.append(route.current)
        delays.append(route.advance({A: B, B: A}.get(route.current, "")))
    assert tried == [A, B, C] + [A, B, C] * 2
    assert [delay > 0 for delay in delays] == [False, False, True] * 3


def test_attempts_get_longer():
    """After rounds in vain the network may be slow; never longer than allowed, and anew after."""
    route = AddressRoute((A, B), most)
    found = []
    for _ in range(16):
        found.append(route.attempt_s(5.0))
        route.advance()
    assert found[0] == ATTEMPT_S
    assert found == sorted(found)
    assert found[-1] == 5.0
    route.note_welcome()
    assert route.attempt_s(5.0) == ATTEMPT_S
    assert route.attempt_s(0.5) == 0.5


ANSWERS = st.one_of(st.just(""), st.sampled_from([A, B, C, X, Y]), st.integers(0, 99).map(str))


@given(
    st.permutations([A, B, C]),
    st.lists(st.tuples(ANSWERS, st.booleans()), max_size=60),
)
@settings(max_examples=200)
def test_no_answer_traps_a_client(listed, answers):
    """Whatever standbys say, each address of the list has its turn, and no loop goes unpaused."""
    route = AddressRoute(tuple(listed), random.Random(1).uniform)
    tried, unpaused = [], 0
    for number, (text, is_welcome) in enumerate(answers):
        named = f"tcp://h{number}x{text}:1" if text.isdigit() else text
        if is_welcome:
            route.note_welcome()
        tried.append(route.current)
        unpaused = 0 if route.advance(named, failed=not is_welcome) or is_welcome else unpaused + 1
        assert unpaused <= 3 + 4 + 4  # listed, named, learned
    for _ in range(20):
        tried.append(route.current)
        route.advance()
    assert {A, B, C} <= set(tried[-20:])


@pytest.fixture
def members(request):
    made = []

    def make(seed=1, hosts=("a", "b")):
        made.append(SimulatedMembers(seed, hosts))
        return made[-1]

    yield make
    for each in made:
        each.close()


def completed(members, client, key, within):
    """Complete a key; returns after how many seconds the answer came."""
    began = members.world.now_ns
    future = client.complete_later(key)
    assert members.world.run_until(future.done, within), (key, client._io_thread.connection_error)
    assert future.result() == 1
    return (members.world.now_ns - began) / 1e9


@pytest.mark.parametrize("seed", range(10))
def test_a_takeover(members, seed):
    """The active server dies after it has done a request, its answer lost: it is done once."""
    world = members(seed)
    a, b = world.members["a"], world.members["b"]
    a.up()
    b.up(standby_of=a.address)
    client = world.client()
    assert completed(world, client, "one", 5) < 1
    world.lost_answers = 1
    future = client.complete_later("two")
    assert world.world.run_until(lambda: len(world.done) == 2, 5)
    a.down()
    assert not world.world.run_until(future.done, 3)  # the standby waits for the lease to end
    b.down()
    b.up()
    assert world.world.run_until(future.done, 2)
    completed(world, client, "three", 2)
    assert world.done == ["one", "two", "three"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_call", [False, True])
def test_a_stopped_active_server(members, seed, has_call):
    """Its connection stays open and it says nothing: the client goes on elsewhere within 5 s."""
    world = members(seed)
    a, b = world.members["a"], world.members["b"]
    a.up()
    b.up(standby_of=a.address)
    client = world.client(on_outcome=print)
    completed(world, client, "one", 5)
    world.world.run(60)  # an idle client; what it asks is answered
    assert len(a.hellos) == 1
    a.answers = False
    future = client.complete_later("two") if has_call else None
    b.down()
    b.up()
    hellos = len(b.hellos)
    assert world.world.run_until(lambda: len(b.hellos) >= hellos + 2, 5.0)  # a scout, and then we
    if future is None:
        future = client.complete_later("two")
    assert world.world.run_until(future.done, 1)
    assert world.done == ["one", "two"]


def test_no_server_is_better(members):
    """While no other server is active the client stays: a worker's leases last as long."""
    world = members()
    a, b = world.members["a"], world.members["b"]
    a.up()
    b.up(standby_of=a.address)
    client = world.client()
    completed(world, client, "one", 5)
    a.answers = False
    future = client.complete_later("two")
    assert not world.world.run_until(future.done, 15)
    assert len(a.hellos) == 1
    assert len(b.hellos) > 5
    a.answers = True
    future = client.complete_later("three")
    assert world.world.run_until(future.done, 5)
    assert len(a.hellos) == 1


def test_all_are_down_and_then_one_is_up(members):
    """However long it takes; the client then needs a second or so."""
    world = members(3, ("a", "b", "c"))
    client = world.client()
    future = client.complete_later("one")
    assert not world.world.run_until(future.done, 300)
    assert "no server can be reached at tcp://" in client._io_thread.connection_error
    world.members["c"].up()
    assert world.world.run_until(future.done, 3)
    assert world.done == ["one"]


def test_all_are_standbys(members):
    """They name each other, themselves and nobody; no loop is busy, and futures do not wait."""
    world = members(4, ("a", "b", "c"))
    a, b, c = world.members.values()
    a.up(standby_of=b.address)
    b.up(standby_of=a.address)
    c.up(standby_of=c.address)
    client = world.client()
    future = client.complete_later("one")
    assert not world.world.run_until(future.done, 60)
    assert "standby" in client._io_thread.connection_error
    for member in (a, b, c):
        assert 10 < len(member.hellos) < 60 / ROUND_DELAY_S[0]
    c.down()
    c.up()
    assert world.world.run_until(future.done, 3)


def test_the_active_server_is_not_listed(members):
    """The standby's answer is followed; the address is remembered while it welcomes the client."""
    world = members(5, ("a", "b", "x"))
    a, b, x = world.members.values()
    x.up()
    a.up(standby_of=x.address)
    b.up(standby_of=x.address)
    client = world.client(f"{a.address},{b.address}")
    completed(world, client, "one", 2)
    a.down()
    b.down()
    x.down()
    x.up()
    completed(world, client, "two", 5)
    x.down()
    b.up()
    completed(world, client, "three", 5)
    assert world.done == ["one", "two", "three"]


@pytest.mark.parametrize("named", ["tcp://nowhere:7411", "tcp://0.0.0.0:7411", "tcp://b:7411"])
def test_a_standby_that_names_what_nobody_reaches(members, named):
    """Also one that is silent there does not keep a client from the rest of its list."""
    world = members(6)
    a, b = world.members.values()
    a.up(standby_of=named)
    b.up(answers=False)
    client = world.client(a.address)
    future = client.complete_later("one")
    assert not world.world.run_until(future.done, 20)
    a.down()
    a.up()
    assert world.world.run_until(future.done, 8)


def test_one_address(members):
    """A client with one address has no other to try; a silent server is left after 20 s."""
    world = members(7)
    a = world.members["a"]
    client = world.client(a.address)
    client.complete_later("zero")
    with pytest.raises(RequestTimeout):
        client.flush(1.0)
    a.up()
    completed(world, client, "one", 5)
    a.answers = False
    future = client.complete_later("two")
    assert not world.world.run_until(future.done, 17)
    assert len(a.hellos) == 1
    a.answers = True
    assert world.world.run_until(future.done, 10)
    assert len(a.hellos) == 2
    assert world.done == ["zero", "one", "two"]
