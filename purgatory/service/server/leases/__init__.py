"""Jobs that are due, and their leases to workers."""
