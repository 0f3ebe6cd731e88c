"""Executors: a timer's own workers, a user's pool, or the thread that advances the clock."""
