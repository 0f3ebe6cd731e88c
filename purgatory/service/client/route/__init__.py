"""Where a client connects: its addresses, which is next, the search for another server."""
