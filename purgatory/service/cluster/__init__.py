"""Several servers over one store: one server is active, the others are standbys."""
