"""Several servers over one store: one server is active, the rest are standbys."""
