"""The journal of a server: rows, their numbers, Parquet files."""
