"""The console: a page for operators."""
