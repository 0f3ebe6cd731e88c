"""The contestants of bench_workers.py: how each submits jobs, and how its worker is started.

A worker is this script in a process of its own: `worker_peers.py NAME PORT`.
"""

import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from service_peers import READY, Process

from purgatory.service import Client, Worker

CONCURRENCY = 8
REDIS_FLAGS = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]


def empty() -> None:
    """Do nothing: a job."""


class Contestant:
    """A server that has jobs. `package`: what has to be installed."""

    package: ClassVar[str] = ""

    def __init__(self, port: int) -> None:
        self._port = port

    def submit(self, count: int) -> None:
        """Submit so many jobs that are due; they are on disk then."""
        raise NotImplementedError

    def left(self) -> int:
        """Return how many jobs are not done."""
        raise NotImplementedError

    def worker_command(self) -> list[str]:
        """Return the arguments with which Python runs a worker."""
        return [__file__, type(self).__name__, str(self._port)]

    def end(self) -> None:
        """End the server."""
        raise NotImplementedError


class Ours(Contestant):
    """A server and workers of this package."""

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(port)
        address = f"tcp://127.0.0.1:{port}"
        flags = ["--data-dir", str(directory / "data"), "--bind", address, "--http-bind", ""]
        self._server = Process([sys.executable, "-m", "purgatory", "serve", *flags], directory)
        self._client = Client(address, name="jobs")
        self._client.stats()

    def submit(self, count: int) -> None:
        """See `Contestant`."""
        for reply in [self._client.schedule_later(0, kind="empty") for _ in range(count)]:
            reply.result()

    def left(self) -> int:
        """See `Contestant`."""
        stats = self._client.stats()
        return int(stats["pending"] + stats["unacknowledged"])

    @staticmethod
    def work(port: int) -> None:
        """Run a worker."""
        worker = Worker(f"tcp://127.0.0.1:{port}", name="jobs", concurrency=CONCURRENCY)
        worker.on("empty")(lambda _: None)
        worker.run()

    def end(self) -> None:
        """See `Contestant`."""
        self._client.close()
        self._server.end()


class OnRedis(Contestant):
    """A peer whose jobs are in Redis."""

    def __init__(self, directory: Path, port: int) -> None:
        import redis  # noqa: PLC0415  # may not be installed

        super().__init__(port)
        command = ["redis-server", "--port", str(port), *REDIS_FLAGS]
        self._server = Process(command, directory)
        self.redis: Any = redis.Redis(port=port)
        deadline = time.monotonic() + READY
        while True:
            try:
                self.redis.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def end(self) -> None:
        """See `Contestant`."""
        self.redis.close()
        self._server.end()


class Celery(OnRedis):
    """Celery with its usual pool, of processes."""

    package = "celery"

    @staticmethod
    def app(port: int) -> Any:
        """Return the application, and its job."""
        import celery  # noqa: PLC0415

        app = celery.Celery("bench", broker=f"redis://127.0.0.1:{port}/0")
        app.conf.update(task_ignore_result=True, task_acks_late=True)
        return app, app.task(name="empty")(empty)

    def submit(self, count: int) -> None:
        """See `Contestant`."""
        app, job = self.app(self._port)
        with app.producer_pool.acquire() as producer:
            for _ in range(count):
                job.apply_async(producer=producer)

    def left(self) -> int:
        """See `Contestant`."""
        return int(self.redis.llen("celery") + self.redis.hlen("unacked"))

    @classmethod
    def work(cls, port: int) -> None:
        """Run a worker."""
        app, _ = cls.app(port)
        app.worker_main(["worker", f"--concurrency={CONCURRENCY}", "--loglevel=ERROR"])


class Rq(OnRedis):
    """RQ with workers that do not fork for each job."""

    package = "rq"

    def submit(self, count: int) -> None:
        """See `Contestant`."""
        import rq  # noqa: PLC0415

        queue = rq.Queue(connection=self.redis)
        for _ in range(count):
            queue.enqueue("worker_peers.empty", result_ttl=0)

    def left(self) -> int:
        """See `Contestant`."""
        return int(self.redis.llen("rq:queue:default") + self.redis.zcard("rq:wip:default"))

    @staticmethod
    def work(port: int) -> None:
        """Run workers."""
        import redis  # noqa: PLC0415
        import rq  # noqa: PLC0415
        import rq.worker_pool  # noqa: PLC0415

        rq.worker_pool.WorkerPool(
            ["default"],
            connection=redis.Redis(port=port),
            num_workers=CONCURRENCY,
            worker_class=rq.SimpleWorker,
        ).start(logging_level="ERROR")


class Dramatiq(OnRedis):
    """Dramatiq with threads."""

    package = "dramatiq"

    @staticmethod
    def actor(port: int) -> Any:
        """Return the broker, and its job."""
        import dramatiq  # noqa: PLC0415
        from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415

        broker = RedisBroker(port=port)
        dramatiq.set_broker(broker)
        return broker, dramatiq.actor(broker=broker, actor_name="empty")(empty)

    def submit(self, count: int) -> None:
        """See `Contestant`."""
        _, job = self.actor(self._port)
        for _ in range(count):
            job.send()

    def left(self) -> int:
        """See `Contestant`."""
        return int(self.redis.hlen("dramatiq:default.msgs"))

    @classmethod
    def work(cls, port: int) -> None:
        """Run a worker."""
        import dramatiq  # noqa: PLC0415

        broker, _ = cls.actor(port)
        worker = dramatiq.Worker(broker, worker_threads=CONCURRENCY)
        worker.start()
        worker.join()
        while True:  # until the benchmark ends the process
            time.sleep(60)


PEERS: dict[str, Any] = {
    "Celery, Redis": Celery,
    "RQ, Redis": Rq,
    "Dramatiq, Redis": Dramatiq,
}


if __name__ == "__main__":
    {kind.__name__: kind for kind in (Ours, Celery, Rq, Dramatiq)}[sys.argv[1]].work(
        int(sys.argv[2])
    )
