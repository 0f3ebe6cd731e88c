"""Backups of a data directory, made while its server runs, and how they are restored."""
