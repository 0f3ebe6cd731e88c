"""Mutants that nobody has thought of: made from the source, sampled, and tried."""
