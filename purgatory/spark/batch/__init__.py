"""Outcomes of a trace, computed as a batch."""
