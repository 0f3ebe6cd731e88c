"""The parts of a simulated world. For a single thread."""
