"""The tables of a trace and of a journal, as checked DataFrames.

Any thread may call the functions.
"""
