"""The bus between threads: commands, the loop of a purgatory, its worker pool."""
