"""Pipes between sockets: commands, high-water marks, and the policies that choose a pipe."""
