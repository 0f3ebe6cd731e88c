"""What time it is, and what a delay in seconds becomes."""
