"""HTTP and JSON for programs in other languages: a client of a server, with an API of its own."""
