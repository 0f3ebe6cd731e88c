"""What waits, and what completes it: delayed operations with watch keys and deadlines."""
