"""The journal of a server: its input, rows and numbers; Parquet files."""
