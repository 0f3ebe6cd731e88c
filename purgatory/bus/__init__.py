"""The loop of a purgatory, its commands and its worker pool."""
