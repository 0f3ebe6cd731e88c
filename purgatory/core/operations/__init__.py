"""A delayed operation: state, end, actions and future."""
