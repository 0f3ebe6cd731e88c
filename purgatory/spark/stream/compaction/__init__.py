"""Merges the small files of a stream's output, beside the running stream."""
