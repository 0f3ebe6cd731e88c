"""Pauses and limits of kinds of jobs, for all workers of a server."""
