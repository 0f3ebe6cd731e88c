"""Leases of names: one program at a time holds a name."""
