"""What a server shows over HTTP: the live page, metrics, health."""
