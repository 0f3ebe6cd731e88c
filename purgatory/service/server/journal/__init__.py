"""The journal of a server: what it is given, in which rows and by which numbers; Parquet files."""
