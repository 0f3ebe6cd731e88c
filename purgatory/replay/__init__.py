"""Replay: sends recorded operations and events through a real purgatory."""

from purgatory.replay.engine import Replay
from purgatory.replay.summary import ReplaySummary

__all__ = ["Replay", "ReplaySummary"]
