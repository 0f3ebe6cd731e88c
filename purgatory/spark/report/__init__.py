"""The report of a journal: computed by Spark, shown in the terminal and on a page."""
