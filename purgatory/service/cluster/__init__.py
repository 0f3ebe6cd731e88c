"""Several servers over one store: one is active, the others stand by and take over."""
