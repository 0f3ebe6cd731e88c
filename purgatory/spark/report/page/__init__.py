"""The page of a report: a self-contained HTML file."""
