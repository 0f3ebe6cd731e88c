"""Answers without changes, in portions between transactions."""
