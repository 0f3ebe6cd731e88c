"""The thread that owns the socket, and exchanges messages with clients."""
