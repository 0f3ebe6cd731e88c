"""A context from the inside: own tree, endpoints, options, reaper."""
