"""Jobs as a client sees them: their calls, handles, and the wait for their ends."""
