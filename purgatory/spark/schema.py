"""The name of `purgatory.spark.tables.schema` in earlier versions, for programs that import it."""

import importlib


def __getattr__(name: str) -> object:
    # Imported at first use: this room lies below that of the modules.
    module = "row_checks" if name.startswith("check_") else "schema"
    return getattr(importlib.import_module(f"purgatory.spark.tables.{module}"), name)
