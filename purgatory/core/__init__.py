"""Delayed operations, watch lists, and the purgatory that joins them with a timer."""
