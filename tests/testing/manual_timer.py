"""A timer whose time is moved by hand, and shapes of wheels to try it with."""

from timingwheel import InlineExecutor, ManualClock, Timer

SHAPES = [(tick, size) for tick in (1, 100) for size in (2, 3, 20, 512)]


def make(tick_ms=1, wheel_size=20, start_ms=0, **options):
    """Return a timer and its manual clock."""
    clock = ManualClock(start_ms)
    timer = Timer(
        clock=clock, executor=InlineExecutor(), tick_ms=tick_ms, wheel_size=wheel_size, **options
    )
    return timer, clock
