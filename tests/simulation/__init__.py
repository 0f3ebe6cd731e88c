"""A simulated world: the service on machines of which nothing is real, as a function of a seed.

Server, clients and workers are the code that runs in production, in one process and one thread.
Clocks, disks, network, threads and chance are not: see `World`. Needs the extra `simulation`.
"""
