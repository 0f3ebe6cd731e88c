"""Named leases in a client's program."""
