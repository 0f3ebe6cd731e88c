"""`purgatory store copy`: copies a whole store to another kind."""
