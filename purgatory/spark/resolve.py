"""The name of `purgatory.spark.batch.resolve` in earlier versions, for programs that import it."""

import importlib


def __getattr__(name: str) -> object:
    # Imported at first use: this room lies below that of the module.
    return getattr(importlib.import_module("purgatory.spark.batch.resolve"), name)
