"""What tests read from simulated sockets."""

import zmq


def events(dealer):
    """Return the events that a dealer's monitor has."""
    monitor = dealer.get_monitor_socket(0)
    found = []
    while monitor.poll(0):
        found.append(int.from_bytes(monitor.recv_multipart()[0][:2], "little"))
    return found


def read(socket):
    """Return all frames of a router, without the routes."""
    frames = []
    while socket.getsockopt(zmq.EVENTS):
        socket.recv()
        frames.append(socket.recv(copy=False).bytes)
    return frames
