"""Jobs as a client sees them."""
