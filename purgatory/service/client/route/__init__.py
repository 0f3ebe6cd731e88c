"""Where a client connects: addresses, their order, the search for another server."""
