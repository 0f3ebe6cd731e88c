"""Outcomes that a client receives, for its futures and its handler."""
