"""No test sleeps to wait: a wait ends by an event, or asks again (`eventually`)."""

import re

from scripts.draw_architecture import ROOT

SLEEPS = re.compile(r"\btime\.sleep\(|from time import .*\bsleep\b")
#: What sleeps, and the reason: nothing is waited for there.
REASONS = {
    "tests/drill/faults.py": "a fault lasts",
    "tests/drill/patroni.py": "asks Patroni now and then",
    "tests/testing/faulty_server.py": "a slow disk",
    "tests/purgatory/service/test_attack.py": "paces the load",
    "tests/purgatory/service/test_job_load.py": "paces the load",
    "tests/purgatory/service/test_forked_child.py": "a program that hangs",
    "tests/purgatory/service/cluster/test_two_servers.py": "a thread that comes late",
    "tests/purgatory/spark/stream/test_executor_killed.py": "a kill at random",
    "tests/simulation/inprocess/test_scheduler.py": "in virtual time",
    "tests/_purgatory_cpython/test_at_exit.py": "slow callbacks of programs",
}


def test_no_test_sleeps():
    """Each `time.sleep` of the tests has a reason, and each reason one."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_sleeps.py" and SLEEPS.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(REASONS)
