"""What the threads of a server that have sockets need of these, and of descriptors."""
