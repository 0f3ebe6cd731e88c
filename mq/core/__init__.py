"""The core of a context: own tree, endpoints, slots, options, reaper, termination."""
