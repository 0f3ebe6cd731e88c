"""Where a client connects."""
