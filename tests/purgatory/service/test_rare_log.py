"""RareLog: a line a minute, and how many were left out."""

import logging

from purgatory.service.rare_log import RareLog


def test_one_line_a_minute(caplog):
    """The next line says how often it happened meanwhile."""
    clock = [0.0]
    rare = RareLog("%s was cut off", lambda: clock[0], logging.WARNING)
    for name in "abc":
        rare.add(name)
    clock[0] = 60.0
    rare.add("d")
    clock[0] = 120.0
    rare.add("e")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "a was cut off"),
        (logging.WARNING, "d was cut off (and 2 times since the last line)"),
        (logging.WARNING, "e was cut off"),
    ]
