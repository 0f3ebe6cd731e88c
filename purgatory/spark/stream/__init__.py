"""The outcomes of a trace, computed as a stream with checkpoints."""
