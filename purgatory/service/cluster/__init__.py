"""Several servers over one store: one active server, and standbys."""
