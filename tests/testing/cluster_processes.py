"""Servers over one PostgreSQL database, each in a process of its own."""

import json
import signal
import time
import urllib.error
import urllib.request

from tests.testing.eventually import eventually
from tests.testing.frozen_process import freeze
from tests.testing.purgatory_harness import HANG, free_port
from tests.testing.server_processes import ServerProcess


class ClusterProcess(ServerProcess):
    """`purgatory serve --store`; `start` returns when it stands by or serves.

    `patch`: Python that runs in the process before the command.
    """

    def __init__(self, directory, url, *flags, takeover_after=2.0, patch="", **others):
        self.http = f"127.0.0.1:{free_port()}"
        super().__init__(
            directory,
            *("--store", url, "--takeover-after", str(takeover_after)),
            *("--http-bind", self.http, "--no-journal"),
            *flags,
            **others,
        )
        if patch:
            command = "from purgatory.cli.entry_point import main; import sys; sys.exit(main())"
            self._command[1:3] = ["-c", f"{patch}\n{command}"]

    def get(self, path):
        """Return status and text of an answer by HTTP; (0, "") if there is none in time."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/{path}", timeout=1) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def cluster(self):
        """Return what the server knows of itself and of the others."""
        status, text = self.get("state.json")
        return json.loads(text)["cluster"] if status == 200 else {"role": ""}

    def is_active(self):
        """Whether it serves, and is ready."""
        return self.get("readyz")[0] == 200

    def wait_until_active(self):
        """Return the seconds until it serves."""
        begin = time.monotonic()
        eventually(self.is_active)
        return time.monotonic() - begin

    def freeze(self):
        """Stop the process, as a machine that swaps or sleeps does."""
        freeze(self.process.pid)

    def thaw(self):
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def __exit__(self, *args):
        if self.process is not None and self.process.poll() is None:
            self.thaw()
        super().__exit__(*args)


def wait_for_exit(server):
    """Return the exit code of a server that ends by itself."""
    server.process.communicate(timeout=HANG)
    return server.process.returncode
