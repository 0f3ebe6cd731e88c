"""Purgatory on Spark: the same operations, keys and deadlines, on more data than one machine holds.

Needs the extra `timer-purgatory[spark]`. Importing this package alone imports nothing of Spark:

    session     a local Spark session that starts quickly and quietly; finds Java
    schema      the tables of a trace as Spark schemas, and the check of every row
    reading     files and directories of those tables, as checked DataFrames
    resolve     operations and events in, outcomes out: a batch, as DataFrame transformations
    stream      the same as a stream, with checkpoints
    report      what the outcomes say; tuning: which wheel would suit the deadlines
    cli         `purgatory spark ...`; package: the zip for spark-submit
"""
