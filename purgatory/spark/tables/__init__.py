"""The tables of a trace and of a journal, as checked DataFrames."""
