"""The drill: two real servers over a real PostgreSQL, random faults, and books that must balance.

`python -m tests.drill --help` says how it is run; `make drill` does. `books` has what was
acknowledged and checks it at the end, `load` makes it, `observers` read from each server, `hosts`
are the servers' processes, `faults` happen to them, and `controls` show that each of the design's
defences is needed, and that this drill sees it.
"""
