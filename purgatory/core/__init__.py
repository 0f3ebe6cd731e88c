"""Watch lists, submission, completion, and the purgatory that joins them with a timer."""
