"""The loop of a purgatory, the commands that its threads send each other, its worker pool."""
