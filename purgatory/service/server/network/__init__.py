"""The thread that owns the socket: what clients send, and what is sent to them."""
