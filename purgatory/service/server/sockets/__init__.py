"""What the network thread of a server needs of sockets and descriptors."""
