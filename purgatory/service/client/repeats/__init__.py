"""Repeats as a client sees them: their calls and handles."""
