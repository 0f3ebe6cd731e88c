"""An API over HTTP and JSON for other languages: a client of a server."""
