"""Pauses and limits of kinds of jobs."""
