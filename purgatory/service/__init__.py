"""The service: delayed operations over ZeroMQ, kept on disk.

The front door of the package; needs the extra ``service`` (pyzmq, msgspec).

Layout: ``protocol`` (what is said, docs/protocol.md), ``config`` and ``errors``; the server from
the inside out: ``clock``, ``operation``, ``room`` (what waits, and every decision), ``keeper`` (the
store thread: decide, commit, answer), ``network`` (the thread that owns the socket), ``server``;
``sink`` (where a journal is plugged in); ``link``, ``client``, ``aclient`` (the other side).
"""
