"""What `purgatory serve` sets in its process: the log, the limit of open files."""
