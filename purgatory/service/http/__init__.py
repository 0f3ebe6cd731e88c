"""What a server shows over HTTP: the live page, metrics and health."""
