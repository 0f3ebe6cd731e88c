"""The thread that owns the socket: receives and sends clients' messages."""
