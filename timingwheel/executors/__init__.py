"""Executors with threads: a timer's own workers, a user's pool, and what runs refused buckets."""
