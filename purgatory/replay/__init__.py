"""Recorded operations and events, sent through a real purgatory."""

from purgatory.replay.engine import Replay, Summary

__all__ = ["Replay", "Summary"]
