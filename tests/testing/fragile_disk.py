"""A disk, or an object store, whose process is killed at a chosen operation."""

import shutil
from pathlib import Path

from purgatory.spark.filesystem import LocalFileSystem


class Killed(BaseException):
    """The process was killed here."""


class FragileFileSystem(LocalFileSystem):
    """A disk: its process is killed before or after the n-th operation that changes something."""

    def __init__(self, steps, *, done):
        self.steps = steps
        self.done = done

    def _step(self, operation, *arguments):
        self.steps -= 1
        if self.steps == 0 and not self.done:
            raise Killed
        result = operation(*arguments)
        if self.steps == 0:
            raise Killed
        return result

    def create(self, path, text):
        """Create a file."""
        return self._step(super().create, path, text)

    def move(self, source, target):
        """Rename a file."""
        self._step(super().move, source, target)

    def move_new(self, source, target):
        """Rename a file, unless the target exists."""
        return self._step(super().move_new, source, target)

    def delete(self, path):
        """Delete a file or a directory."""
        self._step(super().delete, path)


class FragileObjectStore(FragileFileSystem):
    """The same without a rename: a file is copied, then deleted, and a kill may come in between."""

    def move(self, source, target):
        """Copy a file, replacing the target, and delete it."""
        if Path(source).exists():
            self._step(_copy, source, target)
            self.delete(source)

    def move_new(self, source, target):
        """Copy a file, unless the target exists, and delete it."""
        if not Path(source).exists() or Path(target).exists():
            return False
        self.move(source, target)
        return True


def _copy(source, target):
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
