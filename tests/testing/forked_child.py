"""Work in a forked child."""

import os
import signal
import traceback
from collections.abc import Callable

CHILD_TIMEOUT_S = 60  # after which a child is killed


def run_in_child(work: Callable[[], object]) -> int:
    """Fork; the child does `work`, and is killed if it hangs. Its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_TIMEOUT_S)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
