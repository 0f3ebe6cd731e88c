"""How Sphinx builds the site of these pages: `make docs`."""

import purgatory
import purgatory.service
import purgatory.testing
from purgatory.version import package_version

project = "timer-purgatory"
author = "The timer-purgatory authors"
copyright = "the timer-purgatory authors"  # noqa: A001 - Sphinx's name
release = version = package_version()

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["deflist"]
exclude_patterns = ["deploy"]
myst_heading_anchors = 3

# Docstrings write code between single backticks.
default_role = "literal"
autodoc_default_options = {
    "members": True,
    "inherited-members": (
        "object, BaseException, Exception, OSError, Future, tuple, bytearray, int, str"
    ),
}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# Some names are imported at first use. autodoc sees those only that are there.
for lazy in (purgatory, purgatory.service, purgatory.testing):
    for name in lazy.__all__:
        setattr(lazy, name, getattr(lazy, name))

html_theme = "furo"
html_title = f"timer-purgatory {release}"
html_copy_source = False
html_show_sphinx = False
