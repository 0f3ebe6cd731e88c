"""Compile the hot modules with mypyc while the package is built; the rest is in pyproject.toml.

Without a C compiler, or with `PURGATORY_PURE=1` in the environment, the package is installed as
plain Python, and the build says so. It is the same source: `timingwheel.COMPILED` tells which one
runs.
"""

import os
import re
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent / "scripts" / "compiling"))
from build_cache import compiled_once, remove_old, with_included
from build_docstrings import add_docstrings
from build_headers import add_headers, own_headers
from build_parts import is_part, level_of, write_parts

# The modules that run for each timer and each operation. Those that need weak references to their
# own objects, or whose loops must release the interpreter lock, stay interpreted: see
# `_purgatory_cpython.atomicity`.
HOT = [
    "_purgatory_cpython/atomicity.py",
    "_purgatory_cpython/fork.py",
    "mq/core/options.py",
    "mq/core/own.py",
    "mq/pipes/distributor.py",
    "mq/pipes/flow_control.py",
    "mq/pipes/round_robin.py",
    "mq/pipes/message.py",
    "mq/pipes/pipe.py",
    "mq/pipes/subscriptions.py",
    "mq/queues/mailbox.py",
    "mq/queues/ypipe.py",
    "mq/queues/yqueue.py",
    "mq/socket_io.py",
    "mq/sockets/base.py",
    "mq/sockets/command_loop.py",
    "mq/sockets/hooks.py",
    "mq/sockets/pair.py",
    "mq/sockets/pipeline.py",
    "mq/sockets/pubsub.py",
    "mq/sockets/reqrep.py",
    "mq/sockets/router_dealer.py",
    "purgatory/aio/loop_delivery.py",
    "purgatory/aio/loop_operation.py",
    "purgatory/core/completion.py",
    "purgatory/core/held_events.py",
    "purgatory/core/keys.py",
    "purgatory/core/operations/deferred.py",
    "purgatory/core/operations/keyed.py",
    "purgatory/core/operations/outcome_race.py",
    "purgatory/core/operations/operation.py",
    "purgatory/core/operations/operation_state.py",
    "purgatory/core/outcome_recorder.py",
    "purgatory/core/parts.py",
    "purgatory/core/purgatory_core.py",
    "purgatory/core/section_lists.py",
    "purgatory/core/submission.py",
    "purgatory/core/watch_lists.py",
    "purgatory/replay/feeder.py",
    "purgatory/replay/operation.py",
    "purgatory/service/client/calls.py",
    "purgatory/service/client/connection.py",
    "purgatory/service/client/io_thread.py",
    "purgatory/service/client/outcomes.py",
    "purgatory/service/client/session.py",
    "purgatory/service/client/unsent_calls.py",
    "purgatory/service/client/turn.py",
    "purgatory/service/nesting.py",
    "purgatory/service/server/clock.py",
    "purgatory/service/server/store_activity.py",
    "purgatory/service/server/jobs/due_order.py",
    "purgatory/service/server/jobs/job_changes.py",
    "purgatory/service/server/jobs/job_index.py",
    "purgatory/service/server/jobs/job_timings.py",
    "purgatory/service/server/jobs/number_order.py",
    "purgatory/service/server/journal/journal_numbers.py",
    "purgatory/service/server/leases/job_frames.py",
    "purgatory/service/server/leases/due_job.py",
    "purgatory/service/server/leases/job_group.py",
    "purgatory/service/server/leases/job_leases.py",
    "purgatory/service/server/leases/job_times.py",
    "purgatory/service/server/leases/lease_times.py",
    "purgatory/service/server/leases/ready_jobs.py",
    "purgatory/service/server/leases/worker_connection.py",
    "purgatory/service/server/limits/kind_limits.py",
    "purgatory/service/server/journal/job_rows.py",
    "purgatory/service/server/leases/lease_ends.py",
    "purgatory/service/server/reads/outcome_frames.py",
    "purgatory/service/server/reads/remembered_answers.py",
    "purgatory/service/server/records/clients.py",
    "purgatory/service/server/memory.py",
    "purgatory/service/server/network/connections.py",
    "purgatory/service/server/network/flood_gates.py",
    "purgatory/service/server/network/lent_store.py",
    "purgatory/service/server/records/held_keys.py",
    "purgatory/service/server/records/job_record.py",
    "purgatory/service/server/records/operation_counts.py",
    "purgatory/service/server/records/remembered_replies.py",
    "purgatory/service/server/journal/journal_rows.py",
    "purgatory/service/server/transactions/key_events.py",
    "purgatory/service/server/network/network.py",
    "purgatory/service/server/network/reception.py",
    "purgatory/service/server/network/unread_connections.py",
    "purgatory/service/server/network/waiting_messages.py",
    "purgatory/service/server/records/operation.py",
    "purgatory/service/server/fair_queue.py",
    "purgatory/service/server/operation_loading.py",
    "purgatory/service/server/event_requests.py",
    "purgatory/service/server/request_handler.py",
    "purgatory/service/server/submit_requests.py",
    "purgatory/service/server/records/retention.py",
    "purgatory/service/server/records/spreads.py",
    "purgatory/service/server/state.py",
    "purgatory/service/server/commits.py",
    "purgatory/service/server/store_loop.py",
    "purgatory/service/server/transactions/maintenance.py",
    "purgatory/service/server/transactions/transaction.py",
    "purgatory/service/server/validation.py",
    "purgatory/service/store/changes.py",
    "purgatory/service/store/sqlite/tables.py",
    "timingwheel/bucket.py",
    "timingwheel/clocks/clock_reader.py",
    "timingwheel/clocks/duration.py",
    "timingwheel/lanes.py",
    "timingwheel/arguments.py",
    "timingwheel/recurring.py",
    "timingwheel/runner.py",
    "timingwheel/rwlock.py",
    "timingwheel/task.py",
    "timingwheel/timer_core.py",
    "timingwheel/wheel.py",
    "timingwheel/wheel_state.py",
]


# Beside them, in C: an extension for each, and the file that it is made of. What stands in for the
# interpreter lock is for a Python without one.
IN_C = {
    "_purgatory_cpython._main_interpreter": "_purgatory_cpython/_main_interpreter.c",
    "_purgatory_cpython._sections": "_purgatory_cpython/_sections.c",
    "timingwheel._cpython._native": "timingwheel/_cpython/_native.c",
}
HEADERS = ["_purgatory_cpython/_module_slots.h"]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
if not FREE_THREADED:
    del IN_C["_purgatory_cpython._sections"]

# Commands that need mypyc's output; others only list what is in the package.
BUILDING = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}

# Types are checked by `make types`, where every dependency is installed. Here some may be missing,
# so the strict settings of pyproject.toml would object to values of unknown types. The result must
# be the same wherever it is built: independent of installed packages and of caches.
MYPY_OPTIONS = [
    "--config-file=",
    f"--cache-dir={os.devnull}",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
]


class BuildOrGoWithout(build_ext):
    """Build the extensions, or install plain Python: compiling is for speed alone.

    All cores compile C at the same time.
    """

    def run(self) -> None:
        """Build all extensions or none: half a compiled package would not work."""
        outputs = [Path(output) for output in self.get_outputs()]
        try:
            super().run()
        except Exception as error:  # a missing or broken compiler has many ways to fail
            say(f"cannot compile ({type(error).__name__}: {error}); installing plain Python")
            for output in outputs:
                output.unlink(missing_ok=True)
            self.extensions = []
            self.distribution.ext_modules = []
            # The tag of the wheel was chosen before: without this it would name the platform.
            self.get_finalized_command("bdist_wheel").root_is_pure = True

    def build_extensions(self) -> None:
        """Compile all C files, the longest first, then link."""
        jobs = [(extension, file) for extension in self.extensions for file in extension.sources]
        jobs.sort(key=lambda job: length_of(job[1]), reverse=True)
        say(f"the C compiler compiles {len(jobs)} files, the longest in about a minute ...")
        start = time.monotonic()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = list(pool.map(self.compile_one, jobs))
        for (extension, _), objects in zip(jobs, compiled, strict=True):
            extension.extra_objects += objects
            extension.depends += objects  # of a former build, what was linked is older
            extension.sources = []
        super().build_extensions()
        remove_old()
        say(f"compiled and linked after {time.monotonic() - start:.0f} s")

    def compile_one(self, job: tuple[Extension, str]) -> list[str]:
        """Compile a C file; return the name of its object file in a list."""
        extension, file = job
        options = [*extension.extra_compile_args, *level_of(file)]

        def compile_it() -> None:
            self.compiler.compile(
                [file],
                output_dir=self.build_temp,
                include_dirs=extension.include_dirs,
                debug=self.debug,
                extra_postargs=options,
            )

        objects = self.compiler.object_filenames([file], output_dir=self.build_temp)
        command = getattr(self.compiler, "compiler_so", None) or ["cl"]
        compiled_once(file, command, options, objects[0], compile_it)
        if is_part(file):
            say(f"{Path(file).stem} is compiled")
        return objects


def length_of(file: str) -> int:
    """Return how long a C file is, with the files that it includes from its own directory."""
    return sum(each.stat().st_size for each in with_included(Path(file)))


def extensions() -> list[Extension]:
    """Return what to compile: the hot modules, and the C files beside them."""
    if os.environ.get("PURGATORY_PURE", "0") not in {"", "0"}:
        say("PURGATORY_PURE is set; installing plain Python")
        return []
    if sys.implementation.name != "cpython":
        say(f"mypyc is for CPython, this is {sys.implementation.name}; installing plain Python")
        return []
    beside = [Extension(name, [source], depends=HEADERS) for name, source in IN_C.items()]
    if BUILDING.isdisjoint(sys.argv):
        return beside
    say(f"mypyc translates {len(HOT)} modules into C ...")
    try:
        from mypyc.build import mypycify

        compiled = mypycify(
            [*MYPY_OPTIONS, *HOT],
            opt_level="2",
            debug_level="0",
            multi_file=True,
            include_runtime_files=True,
            group_name="timer_purgatory",
        )
    except (ImportError, SystemExit) as error:  # mypyc exits when it refuses the source
        say(f"mypyc cannot compile it ({error!r}); installing plain Python")
        return []
    document(compiled)
    add_own_headers(compiled)
    hide_symbols(compiled)
    put_in_parts(compiled)
    return [*compiled, *beside]


def put_in_parts(compiled: list[Extension]) -> None:
    """Make two C files of the many of the library; the others belong to a module each."""
    for extension in compiled:
        if len(extension.sources) > 1:
            extension.sources = write_parts(extension.sources, HOT, own_headers())


def document(compiled: list[Extension]) -> None:
    """Put the docstrings that mypyc leaves out into its C code."""
    try:
        count = add_docstrings({path for each in compiled for path in each.sources}, HOT)
    except (OSError, ValueError) as error:
        say(f"no docstrings in what is compiled ({error!r})")
    else:
        say(f"{count} docstrings in what is compiled")


def hide_symbols(compiled: list[Extension]) -> None:
    """Let the C compiler inline compiled functions in each other, and call them directly.

    It may not where another library could replace them by its own, as it could by default.
    """
    if os.name == "posix":
        for extension in compiled:
            arguments = extension.extra_compile_args  # a list that all of them share
            extension.extra_compile_args = [*arguments, "-fvisibility=hidden"]


def add_own_headers(compiled: list[Extension]) -> None:
    """Keep compiled code from crashing where memory is short, and more: see build_headers."""
    count = add_headers({path for each in compiled for path in each.sources})
    say(f"headers of ours in {count} files")


def say(what: str) -> None:
    """Print a line of the build's log; pip shows it with -v."""
    print(f"timer-purgatory: {what}", file=sys.stderr)


def readme() -> str:
    """Return the README as a package index shows it: without links to files, which it lacks."""
    text = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]+\)", r"\1", text)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildOrGoWithout},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
