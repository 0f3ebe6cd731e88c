"""Worlds of two servers over one database: takeovers, doubts, links that hang, clocks apart.

The servers, their stores' groups with fence and doubt, the lease with its guard, the watch of a
standby, the takeover and the heartbeat are the product's. The database is a double that reads the
conditions of the product's statements; the loop that runs a member's parts is a double as well, for
the real one waits in threads.
"""
