"""The outcomes of a trace, computed by one batch job."""
