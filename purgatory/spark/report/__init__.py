"""What outcomes say: aggregates, plots, a page."""
