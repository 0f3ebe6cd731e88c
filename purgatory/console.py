"""The console of commands: rich's, with errors that the command line knows.

Needs rich, an extra: import it on first use. For the thread that prints.
"""

import errno
import os
from typing import NoReturn

from rich.console import Console


class OutputConsole(Console):
    """A console that raises BrokenPipeError if the reader of a pipe has gone.

    rich would end the process with exit code 1, a negative answer here.
    """

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
