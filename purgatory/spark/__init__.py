"""Purgatory on Spark, for more data than one machine holds.

Operations, keys, deadlines and outcomes are the same as in a single process. Needs the extra
`timer-purgatory[spark]`. Importing this package alone imports nothing of Spark.

    tables/      the tables of a trace as checked DataFrames
    batch/       operations and events in, outcomes out: one job
    stream/      the same as a stream, with checkpoints
    read         a journal as a data source, for notebooks
    report/      what the outcomes of a journal say, in the terminal and on a page
    session      a local Spark session that starts quickly and quietly; `java` finds its Java
    filesystem   the file operations that a checkpoint needs, on local disks and on Hadoop's
    package      the zip for spark-submit
"""
