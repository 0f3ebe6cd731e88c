"""collect_young: a short look of CPython's cycle collector. Any thread."""

import gc


def collect_young() -> None:
    """Collect the young objects, and the next older ones when CPython would.

    By itself CPython considers the older ones only when many objects are made between two calls: 25
    ms for all threads, in whichever makes them. Nothing happens while the collector is disabled.
    """
    if gc.isenabled():
        _, looks, _ = gc.get_count()
        _, most, _ = gc.get_threshold()
        gc.collect(1 if looks >= most else 0)
