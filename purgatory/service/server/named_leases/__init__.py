"""Leases of names, which one program at a time has."""
