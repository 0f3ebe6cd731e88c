"""The locks of a timer, and of a lane of it."""
