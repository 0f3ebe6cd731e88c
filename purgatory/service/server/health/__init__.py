"""Whether a server works, and whether it is ready: judged from what its transactions note."""
