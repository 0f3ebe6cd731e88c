"""Takes the place of pandas in processes without it; see `tests.testing.environments`."""

raise ImportError("this process of a test has no pandas, as where the extra `spark` is missing")
