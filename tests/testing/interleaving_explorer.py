"""InterleavingExplorer: runs small concurrent programs in every order of their lines.

The programs are real threads running the real code.  Each stops before every line of the files
under test (`sys.settrace`), and whenever it may have to wait; exactly one
runs at a time, and the explorer decides which.  `explore` replays a scenario again and again, depth
first, with a different decision each time.

A line that touches nothing but what one thread owns cannot be told from one run a little earlier,
so there is no stop before it.  Those are the lines that use none but names said to be private;
whatever is not known to be private counts as shared.

Two orders that lead to the same state have the same future, so a state is explored once: what
counts as state is every thread's stack - code, instruction, local variables - and everything that
can be reached from there.  A line must therefore be one step: at most one access to what threads
share, and no half-evaluated expression but calls.  A test that cannot be explored raises TypeError.
"""

import dis
import sys
import threading
import types
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

MOST_PROGRAMS = 8
HANG_TIMEOUT_S = 30.0  # seconds: only a bug in this file takes so long


class BadInterleaving(Exception):
    """Some order of the lines violates an assertion."""


class _Abandoned(BaseException):
    """Ends the threads of an execution that is of no more interest."""


@dataclass
class Scenario:
    """What to run: programs by name, what they share, and what must be true at the end.

    Threads named in `interruptible` may be hit by one KeyboardInterrupt, before any step inside the
    files under test; such a program catches it and calls `explorer.resume`, after which none comes.
    """

    programs: dict
    shared: tuple
    at_end: object
    interruptible: tuple = ()


@dataclass
class _Thread:
    name: str
    program: object
    interrupts: int
    go: threading.Lock = field(default_factory=threading.Lock)
    ready: object = None  # None, or a predicate: whether it can go on
    frame: object = None
    done: bool = False
    interrupt: bool = False

    def runnable(self):
        return not self.done and (self.ready is None or self.ready())


class InterleavingExplorer:
    """Runs a scenario in all orders.

    `private` says, for each file whose lines are steps, which names - of variables, attributes,
    functions - lead to nothing shared; `shared` which names in the programs do.
    """

    def __init__(self, private, shared=()):
        self._files = private
        self._shared = frozenset(shared)
        self._stops = {}  # code: the lines of it that are steps
        self.states = set()
        self.executions = 0
        self._schedules = [()]  # decisions to make before new ones are tried

    def explore(self, make):
        """Run `make(self)`, a new Scenario each time, in all orders."""
        # To start a thread, and to trace it, costs more than an execution of a few lines.
        self._pool = ThreadPoolExecutor(MOST_PROGRAMS)
        try:
            while self._schedules:
                self.executions += 1
                self._execute(make(self), self._schedules.pop())
        finally:
            self._pool.shutdown()
        return self

    # One execution

    def _execute(self, scenario, schedule):
        self._scenario = scenario
        self._schedule, self._made, self._log = schedule, [], []
        self._error = None
        self._abandoned = False
        self._finished = threading.Event()
        self._threads = [
            _Thread(name, program, name in scenario.interruptible)
            for name, program in scenario.programs.items()
        ]
        self._codes = {thread.program.__code__ for thread in self._threads}
        self._by_ident = {}
        for thread in self._threads:
            thread.go.acquire()
        runs = [self._pool.submit(self._run, thread) for thread in self._threads]
        self._decide(None)
        if not self._finished.wait(HANG_TIMEOUT_S):
            self._fail(AssertionError("the scheduler is stuck"))
        for run in runs:
            run.result(HANG_TIMEOUT_S)
        if self._error is not None:
            order = "\n".join(f"  {step}" for step in self._log)
            raise BadInterleaving(f"{self._error!r} after\n{order}") from self._error

    def _run(self, thread):
        self._by_ident[threading.get_ident()] = thread
        thread.go.acquire()
        try:
            if not self._abandoned:
                self._see_lines()
                thread.program()
        except _Abandoned:
            pass
        except BaseException as exc:
            self._fail(exc)
        thread.done, thread.frame = True, None
        if not self._abandoned:
            self._decide(thread)

    def _see_lines(self):
        if sys.gettrace() is None:  # in a new thread, and after an exception that `_trace` raised
            sys.settrace(self._trace)

    def _trace(self, frame, event, argument):
        code = frame.f_code
        if code.co_filename not in self._files and code not in self._codes:
            return None
        if event == "line" and frame.f_lineno in self._lines(code):
            self._step(frame, None)
        return self._trace

    def _lines(self, code):
        lines = self._stops.get(code)
        if lines is None:
            private, line, lines = self._files.get(code.co_filename), 0, set()
            for instruction in dis.get_instructions(code):
                line = _line_begun(instruction) or line
                name = instruction.argval
                if not isinstance(name, str) or instruction.opname in _CONSTANTS:
                    continue
                if name in self._shared if private is None else name not in private:
                    lines.add(line)
            self._stops[code] = lines
        return lines

    def wait_until(self, ready):
        """Called by what stands in for locks and signals: go on when `ready()` says so."""
        self._step(sys._getframe(1), ready)

    def resume(self):
        """Called by a program that has caught its KeyboardInterrupt, or must get none."""
        self._by_ident[threading.get_ident()].interrupts = 0
        frame = sys._getframe(1)
        frame.f_trace = self._trace
        self._see_lines()

    def _step(self, frame, ready):
        thread = self._by_ident[threading.get_ident()]
        if thread.done:
            return  # what the last one to end looks at in the end
        if self._abandoned:
            raise _Abandoned
        thread.frame, thread.ready = frame, ready
        self._log.append(f"{thread.name}: {frame.f_code.co_qualname}, line {frame.f_lineno}")
        self._decide(thread)
        if self._abandoned:
            raise _Abandoned
        thread.ready = None
        if thread.interrupt:
            thread.interrupt = False
            self._log.append(f"{thread.name}: interrupted")
            raise KeyboardInterrupt

    # Decisions

    def _decide(self, current):
        """Let one thread go on: `current` by returning, another by releasing it and waiting."""
        options = self._options(current)
        if not options:
            self._at_end()
            return
        chosen = options[0] if len(options) == 1 else self._choose(options)
        if chosen is None:
            self._abandon()
            return
        name, interrupt = chosen
        thread = next(thread for thread in self._threads if thread.name == name)
        if interrupt:
            thread.interrupt, thread.interrupts = True, 0
        if thread is current:
            return
        thread.go.release()
        if current is not None and not current.done:
            current.go.acquire()

    def _options(self, current):
        # The thread that runs goes first: fewer switches.
        threads = sorted(self._threads, key=lambda thread: thread is not current)
        options = [(thread.name, False) for thread in threads if thread.runnable()]
        return options + [
            (thread.name, True) for thread in threads if thread.interrupts and self._inside(thread)
        ]

    def _inside(self, thread):
        return any(frame.f_code.co_filename in self._files for frame in self._stack(thread))

    def _stack(self, thread):
        """Its frames, innermost first, as far as the program's own."""
        frame = thread.frame
        while frame is not None:
            yield frame
            frame = None if frame.f_code in self._codes else frame.f_back

    def _choose(self, options):
        """The next decision: as scheduled, else a new one; None in a state that was seen."""
        position = len(self._made)
        if position < len(self._schedule):
            chosen = self._schedule[position]
        else:
            state = self._state()
            if state in self.states:
                return None
            self.states.add(state)
            chosen = options[0]
            made = tuple(self._made)
            self._schedules += [(*made, other) for other in options[1:]]
        self._made.append(chosen)
        return chosen

    def _at_end(self):
        try:
            stuck = [thread.name for thread in self._threads if not thread.done]
            assert not stuck, f"{stuck} would wait for ever"
            self._scenario.at_end()
        except AssertionError as exc:
            self._error = exc
        self._abandon()

    def _fail(self, error):
        if not self._abandoned:
            self._error = error
            self._abandon()

    def _abandon(self):
        self._abandoned = True
        for thread in self._threads:
            if not thread.done and thread.go.locked():
                thread.go.release()
        self._finished.set()

    # States

    def _state(self):
        encode = _Encoder()
        encode(self._scenario.shared)
        for thread in self._threads:
            encode((thread.name, thread.done, thread.interrupts))
            for frame in self._stack(thread):
                encode((frame.f_code.co_qualname, frame.f_lasti, _variables(frame)))
        return tuple(encode.words)


def _variables(frame):
    # Not the temporaries of pytest's assertions, which matter within their own line only.
    return {name: value for name, value in frame.f_locals.items() if name[0] != "@"}


# What these carry is a value or a way of calling, not a name.
_CONSTANTS = frozenset(["LOAD_CONST", "RETURN_CONST", "KW_NAMES", "COMPARE_OP", "BINARY_OP"])


def _line_begun(instruction):
    """The number of the line that begins with `instruction`, or None."""
    if sys.version_info >= (3, 13):
        return instruction.line_number
    return instruction.starts_line


class _Encoder:
    """Writes a graph of objects down in words: equal words, equal graphs."""

    def __init__(self):
        self.words = []
        self._seen = {}
        self._kept = []  # so that no address is given to another object meanwhile

    def __call__(self, value):
        words = self.words
        if value is None or isinstance(value, bool | int | str | float):
            words.append(repr(value))
        elif isinstance(value, types.FunctionType | type | InterleavingExplorer):
            words.append(type(value).__name__)
        elif id(value) in self._seen:
            words.append(self._seen[id(value)])
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            words.append(type(value).__name__)
            for part in self._parts(value):
                self(part)
            words.append("end")

    def _parts(self, value):
        if isinstance(value, list | tuple | deque):
            return list(value)
        if isinstance(value, dict):
            return [part for item in value.items() for part in item]
        if isinstance(value, IndexError):
            return []
        names = [name for name in getattr(type(value), "__slots__", ()) if name[:2] != "__"]
        if not names:
            raise TypeError(f"cannot tell the states of a {type(value).__name__} apart")
        return [getattr(value, name, "unset") for name in names]


def load(path, change=str, **substitutes):
    """Run a source file as a module of its own, with other names for what it imported.

    The source, not the module: a compiled one has no lines.  `change` turns its text into what is
    run instead.
    """
    module = types.ModuleType(f"explored_{path.stem}")
    exec(compile(change(path.read_text()), str(path), "exec"), module.__dict__)
    for name, substitute in substitutes.items():
        assert hasattr(module, name), f"{path.name} has no {name} to stand in for"
        setattr(module, name, substitute)
    return module


def swapped(first, second):
    """A change of a source: the line that contains `first` and the next that has `second`."""

    def change(text):
        lines = text.splitlines()
        one = next(number for number, line in enumerate(lines) if first in line)
        two = next(n for n, line in enumerate(lines) if second in line and n > one)
        assert _indent(lines[one]) == _indent(lines[two]), "not two steps of one block"
        lines[one], lines[two] = lines[two], lines[one]
        return "\n".join(lines)

    return change


def replaced(old, new):
    """A change of a source: the first `old`, which must be there, becomes `new`."""

    def change(text):
        assert old in text, f"the source no longer has {old!r}"
        return text.replace(old, new, 1)

    return change


def _indent(line):
    return len(line) - len(line.lstrip())
