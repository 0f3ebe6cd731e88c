"""Purgatory on Spark, for more data than one machine holds.

Operations, keys, deadlines and outcomes are the same as in a single process. Needs the extra
`timer-purgatory[spark]`. The package itself imports nothing of Spark.

    tables/      the tables of a trace as checked DataFrames
    batch/       a trace to outcomes, by one job
    stream/      the same as a stream
    read         a data source for notebooks
    report/      the outcomes of a journal on a page
    session      a local Spark session; `java` finds its Java
    filesystem   local disks and Hadoop's file systems
    package      the zip for spark-submit
"""
