"""A delayed operation: its state, how it ends, its actions, and its future."""
