"""Which programs may speak to a server or a gateway: keys and tokens."""
