"""Repeats as a client sees them."""
