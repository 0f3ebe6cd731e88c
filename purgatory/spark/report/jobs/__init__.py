"""The part of a report about jobs: Spark's counts, the effect of limits, advice."""
