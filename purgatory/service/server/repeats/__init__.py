"""Repeats: jobs by the calendar or at intervals, submitted by the server."""
