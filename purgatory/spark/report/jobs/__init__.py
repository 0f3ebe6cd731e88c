"""The part of a report about jobs: what Spark counts, what limits would have done, advice."""
