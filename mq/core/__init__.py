"""The core of a context: own, endpoints, slots, options, reaper, termination."""
