"""Repeats: jobs by the calendar or at intervals, which the server submits."""
