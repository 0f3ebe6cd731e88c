"""Answers that only read, in portions between transactions."""
