"""Delayed operations, watch lists, futures, and the purgatory that joins them with a timer."""
