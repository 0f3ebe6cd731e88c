"""Metrics: what Prometheus sees, in which registry, over HTTP."""

import copy
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import weakref

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from purgatory import Purgatory
from purgatory.aio import AsyncPurgatory
from purgatory.metrics import MetricsError, PurgatoryCollector, register, serve
from purgatory.registry import live_purgatories
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, Recorder, in_thread
from timingwheel import InlineExecutor, ManualClock, Timer


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def harness(registry):
    return PurgatoryHarness(registry=registry)


def samples(registry):
    """Return the samples of a scrape: name and labels -> value; no duplicates."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


class TestSamples:
    def test_every_metric(self, harness, registry):
        """Each metric and label has the right figure."""
        p = harness.purgatory
        for _ in range(3):
            p.defer("a", "b", timeout=0.05)
        p.complete("a")
        p.defer("a", timeout=1)
        p.defer("b", timeout=30).cancel()
        p.defer("c", timeout=30)
        p.fail("c", OSError)
        p.complete("d", hold=500)
        harness.clock.advance(1.0)
        harness.timer.advance_clock()
        p.defer("x", "y", timeout=500)
        p.defer("x", timeout=0.003)
        assert samples(registry) == samples_of(
            {
                "purgatory_operations_pending": {("bench",): 2},
                "purgatory_watch_entries": {("bench",): 3},
                "purgatory_watched_keys": {("bench",): 2},
                "purgatory_held_events": {("bench",): 1},
                "mq_mailbox_commands_total": {("bench",): 0},
                "mq_mailbox_depth": {("bench",): 0},
                "purgatory_operations_total": {
                    ("bench", "completed"): 3,
                    ("bench", "failed"): 1,
                    ("bench", "expired"): 1,
                    ("bench", "cancelled"): 1,
                },
            }
        ) | {key: value for key, value in samples(registry).items() if "timingwheel" in key[0]}
        wheel = (("name", "wheel"),)
        found = samples(registry)
        stats = harness.timer.stats()
        assert found["timingwheel_timers_pending", wheel] == 3
        assert found["timingwheel_timers_total", (*wheel, ("outcome", "fired"))] == 1
        assert found["timingwheel_timers_total", (*wheel, ("outcome", "cancelled"))] == 5
        assert found["timingwheel_cascades_total", wheel] == stats.cascades
        assert found["timingwheel_executor_backlog", wheel] == 0
        levels = {
            labels[0][1]: value
            for (name, labels), value in found.items()
            if name == "timingwheel_buckets_occupied"
        }
        assert levels == {str(n): count for n, count in enumerate(stats.buckets_occupied)}
        assert sum(levels.values()) == 2  # 500 seconds twice, and 3 ms
        buckets = [
            (labels[0], value)
            for (name, labels), value in found.items()
            if name == "timingwheel_lateness_seconds_bucket"
        ]
        assert (("le", "+Inf"), 1) in buckets
        assert (("le", "0.001"), 1) in buckets
        assert found["timingwheel_lateness_seconds_count", wheel] == 1
        assert found["timingwheel_lateness_seconds_sum", wheel] == 0

    def test_types(self, harness, registry):
        """Each metric has its type and a help text."""
        families = {
            family.name: (family.type, bool(family.documentation)) for family in registry.collect()
        }
        assert families == {
            "mq_mailbox_commands": ("counter", True),
            "mq_mailbox_depth": ("gauge", True),
            "purgatory_operations_pending": ("gauge", True),
            "purgatory_watch_entries": ("gauge", True),
            "purgatory_watched_keys": ("gauge", True),
            "purgatory_held_events": ("gauge", True),
            "purgatory_operations": ("counter", True),
            "timingwheel_timers_pending": ("gauge", True),
            "timingwheel_timers": ("counter", True),
            "timingwheel_buckets_occupied": ("gauge", True),
            "timingwheel_cascades": ("counter", True),
            "timingwheel_lateness_seconds": ("histogram", True),
            "timingwheel_executor_backlog": ("gauge", True),
        }

    def test_no_label_names_a_key(self, harness, registry):
        """Watch keys are never labels."""
        harness.purgatory.defer("secret-key")
        assert b"secret-key" not in generate_latest(registry)

    def test_lateness_is_cumulative(self, registry):
        """Lateness buckets are cumulative, in seconds."""
        harness = PurgatoryHarness(registry=registry)
        for delay in (0.1, 0.1, 0.095, 0.05):
            harness.purgatory.defer("k", timeout=delay)
        harness.clock.advance(0.1)
        harness.timer.advance_clock()
        get = registry.get_sample_value
        values = [
            get("timingwheel_lateness_seconds_bucket", {"name": "wheel", "le": bound})
            for bound in ("0.0", "0.002", "0.005", "0.02", "0.05", "5.0", "+Inf")
        ]
        assert values == [2, 2, 3, 3, 4, 4, 4]
        assert get("timingwheel_lateness_seconds_sum", {"name": "wheel"}) == 0.055


def samples_of(metrics):
    """Return expected samples from name -> label values -> value."""
    return {
        (name, tuple(zip(("name", "outcome"), labels, strict=False))): value
        for name, values in metrics.items()
        for labels, value in values.items()
    }


class TestRegistry:
    def test_two_in_one_registry(self, registry):
        """Purgatories are distinguished by name; a shared timer is shown once."""
        timer = Timer("shared", clock=ManualClock(), executor=InlineExecutor())
        one = Purgatory("one", timer=timer, registry=registry)
        Purgatory("two", timer=timer, registry=registry)
        one.defer("k")
        found = samples(registry)
        assert found["purgatory_operations_pending", (("name", "one"),)] == 1
        assert found["purgatory_operations_pending", (("name", "two"),)] == 0
        assert found["timingwheel_timers_pending", (("name", "shared"),)] == 1

    def test_timers_of_one_name_are_summed(self, registry):
        """Figures of purgatories of the same name are added up."""
        harnesses = [PurgatoryHarness(), PurgatoryHarness()]
        for number, harness in enumerate(harnesses):
            Purgatory(f"p{number}", timer=harness.timer, registry=registry).defer("k", timeout=1)
        harnesses[1].advance(1)
        found = samples(registry)
        assert found["timingwheel_timers_pending", (("name", "wheel"),)] == 1
        assert found["timingwheel_lateness_seconds_count", (("name", "wheel"),)] == 1

    def test_a_name_is_taken_once(self, registry):
        """A name that is taken raises ValueError; after close it is free."""
        p = Purgatory("same", registry=registry)
        with pytest.raises(ValueError, match="name is 'same'"):
            Purgatory("same", registry=registry)
        assert Purgatory("same", registry=CollectorRegistry()).name == "same"
        p.close()
        assert samples(registry) == {}
        again = Purgatory("same", registry=registry)
        p.close()  # a second close does not unregister the new one
        assert ("purgatory_operations_pending", (("name", "same"),)) in samples(registry)
        again.close()

    def test_what_is_no_registry(self):
        """It is refused by `register` as by the constructor."""
        with Purgatory() as purgatory, pytest.raises(TypeError, match="registry is 'x'"):
            register(purgatory, "x")

    def test_a_finalizer_closes_another_while_one_registers(self):
        """The collector may run the finalizer in the middle of a registration."""
        old = Purgatory("old", registry=CollectorRegistry())

        class Collecting(CollectorRegistry):
            def register(self, collector):
                old.close()  # as a finalizer would
                super().register(collector)

        registry = Collecting()
        new = in_thread(lambda: Purgatory("new", registry=registry))
        assert any(("name", "new") in labels for _, labels in samples(registry))
        new.close()

    def test_a_registry_that_is_dropped_goes_with_its_purgatories(self):
        """Also if they were not closed; a registry that stays keeps them."""
        registry = CollectorRegistry()
        dropped = weakref.ref(Purgatory("dropped", registry=registry))
        gc.collect()
        assert ("name", "dropped") in {one for _, labels in samples(registry) for one in labels}
        del registry
        gc.collect()
        assert dropped() is None

    def test_registries_are_told_apart_by_identity(self):
        """A subclass with its own `__eq__` has no hash; equal registries stay two."""

        class Equal(CollectorRegistry):
            def __eq__(self, other):
                return True

        registries = Equal(), Equal()
        for registry in registries:
            PurgatoryHarness(registry=registry).purgatory.close()
            p = PurgatoryHarness(registry=registry).purgatory
            p.defer("k")
            assert registry.get_sample_value("purgatory_operations_pending", {"name": "bench"}) == 1
            p.close()

    def test_without_registry_nothing_is_registered(self):
        """The default registry stays as it was."""
        before = len(list(REGISTRY.collect()))
        Purgatory().close()
        assert len(list(REGISTRY.collect())) == before

    def test_no_lock_is_held_while_it_yields(self, harness, registry):
        """While a scrape is under way, other threads may submit, register and close."""
        p = harness.purgatory
        families = iter(registry.collect())
        next(families)
        done = threading.Event()

        def use():
            p.defer("k").cancel()
            Purgatory("another", registry=registry).close()
            samples(registry)
            done.set()

        threading.Thread(target=use, daemon=True).start()
        assert done.wait(HANG)
        assert len(list(families)) == 12

    def test_describe_has_no_samples(self, registry):
        """A registry finds clashes of names without a scrape."""
        collector = PurgatoryCollector(list)
        assert all(not family.samples for family in collector.describe())
        registry.register(collector)
        with pytest.raises(ValueError, match="Duplicated"):
            registry.register(PurgatoryCollector(list))

    def test_scrapes_while_purgatories_come_and_go(self):
        """Listing live purgatories is safe while others are made."""
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                for purgatory_ in [Purgatory(f"p{n}") for n in range(20)]:
                    purgatory_.close()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for _ in range(500):
                assert all(isinstance(one, Purgatory) for one in live_purgatories())
        finally:
            stop.set()
            thread.join()


def fetch(server):
    """Return the page of a server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=HANG) as page:
        return page.read().decode()


class TestServe:
    def test_a_registry_over_http(self, harness, registry):
        """The page has the figures of the moment of the request."""
        op = Recorder()
        with serve(0, registry=registry) as server:
            assert 'purgatory_operations_pending{name="bench"} 0.0' in fetch(server)
            harness.purgatory.try_complete_else_watch(op, ["k"])
            assert 'purgatory_operations_pending{name="bench"} 1.0' in fetch(server)
            op.force_complete()
            line = 'purgatory_operations_total{name="bench",outcome="completed"} 1.0'
            assert line in fetch(server)
        with pytest.raises(urllib.error.URLError):
            fetch(server)

    def test_all_live_purgatories(self):
        """Without a registry all live purgatories are shown, closed ones are not."""
        p, closed = Purgatory("a-live-one"), Purgatory("a-closed-one")
        closed.close()
        with serve(0) as server:
            page = fetch(server)
        assert 'name="a-live-one"' in page
        assert "a-closed-one" not in page
        p.close()

    def test_a_port_in_use(self):
        """An address in use raises MetricsError, which says why, and leaves no thread."""
        before = set(threading.enumerate())
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(MetricsError, match=f"127.0.0.1:{port}.*in use"):
                serve(port)
        assert set(threading.enumerate()) <= before

    @pytest.mark.parametrize(("port", "addr"), [(70000, "127.0.0.1"), (0, "256.1.1.1")])
    def test_an_address_that_is_none(self, port, addr):
        """Ports out of range and foreign addresses raise MetricsError, too."""
        with pytest.raises(MetricsError, match=str(port)):
            serve(port, addr)

    @pytest.mark.parametrize("copy_of", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_copies_are_refused(self, copy_of):
        """A copy would share the socket and the threads."""
        with serve(0) as server, pytest.raises(TypeError, match="cannot be copied"):
            copy_of(server)

    def test_close_ends_its_thread(self):
        """After close no thread is left; closing again is no error."""
        before = set(threading.enumerate())
        server = serve(0)
        assert server.addr == "127.0.0.1"
        server.close()
        server.close()
        assert set(threading.enumerate()) <= before

    def test_close_lets_an_answer_be_sent(self):
        """close returns after requests under way are answered."""

        class Slow(Collector):
            def collect(self):
                asked.set()
                server._thread.join()  # now close waits for this response only
                yield GaugeMetricFamily("slow", "x" * 10_000_000, 1)

        registry, asked, pages = CollectorRegistry(), threading.Event(), []
        registry.register(Slow())
        server = serve(0, registry=registry)
        client = threading.Thread(target=lambda: pages.append(fetch(server)))
        client.start()
        assert asked.wait(HANG)
        server.close()
        assert server._responses._under_way == 0
        client.join(HANG)
        assert "slow 1.0" in pages[0]


def test_only_metrics_import_the_http_server():
    """A purgatory without metrics does not import Prometheus' client, which takes long."""
    code = (
        "import sys, purgatory\n"
        "purgatory.Purgatory().close()\n"
        "assert 'prometheus_client' not in sys.modules\n"
        "assert purgatory.metrics.serve\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class TestArguments:
    @pytest.mark.parametrize("dropped", [True, False])
    def test_one_that_was_emptied_shows_later_purgatories(self, dropped):
        """A fixture may unregister all collectors: what is made next is shown again."""
        registry = CollectorRegistry()
        former = Purgatory("former", registry=registry)
        for _ in range(3):
            for collector in list(registry._collector_to_names):
                registry.unregister(collector)
            if dropped:
                former.close()
            with Purgatory("orders", registry=registry):
                page = generate_latest(registry).decode()
                assert 'purgatory_operations_pending{name="orders"} 0.0' in page
                assert ('name="former"' in page) is not dropped

    @pytest.mark.parametrize("name", ["orders-\udcff", "\ud800"])
    def test_a_name_that_cannot_be_written_is_refused(self, name):
        """Half of a surrogate pair would spoil the whole page."""
        registry = CollectorRegistry()
        for make in (Purgatory, AsyncPurgatory):
            with pytest.raises(ValueError, match="name is"):
                make(name, registry=registry)
        generate_latest(registry)

    @pytest.mark.parametrize(
        ("port", "addr"), [("80", "127.0.0.1"), (None, ""), (0, None), (0.0, "")]
    )
    def test_bad_addresses(self, port, addr):
        """A port or an address of another type is named."""
        with pytest.raises(TypeError, match=r"(port|addr) is"):
            serve(port, addr)


def test_an_endpoint_in_a_forked_child():
    """The child has no thread of it: `close` closes the copy of the socket, and returns."""
    with serve(0) as endpoint:
        child = os.fork()
        if child == 0:
            signal.alarm(int(HANG))
            endpoint.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as page:
            assert page.status == 200


@pytest.mark.parametrize("addr", ["x" * 300, "a..b", "\udc80"])
def test_an_address_that_is_none(addr):
    """A MetricsError, as for others at which it cannot listen."""
    with pytest.raises(MetricsError, match="cannot serve metrics on"):
        serve(0, addr)
    with pytest.raises(TypeError, match="registry is 'x'"):
        serve(0, registry="x")
