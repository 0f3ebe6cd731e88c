"""The records of a server in memory."""
