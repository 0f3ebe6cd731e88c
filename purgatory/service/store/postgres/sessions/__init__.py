"""Sessions with a PostgreSQL database: groups of statements, a round trip each."""
