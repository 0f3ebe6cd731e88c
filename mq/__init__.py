"""How threads talk: ZeroMQ's in-process layer with pyzmq's API."""
