"""Clocks, readings, and the conversion of delays from seconds."""
