"""Tests of the kinds of sockets."""
