"""Every command of the README and the docs succeeds.

In a file of its own, which one process runs: servers of the pages have the ports that are the
default.
"""

import http.server
import subprocess
import threading

import pytest

from tests.test_docs import FENCE, ROOT, blocks, environment


# A year of flights, twice: seconds on an idle machine, minutes on a busy one.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("commands", blocks("console"))
def test_commands_run(commands, tmp_path):
    """Each command of a page succeeds; `scripts/check-core` tests those that install."""
    done = run_commands(commands, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.timeout(300)
def test_the_drill_of_two_servers(postgres, tmp_path):
    """The commands of the last block of the page succeed: the standby answers."""
    page = (ROOT / "docs" / "high-availability.md").read_text()
    drill = [match[2] for match in FENCE.finditer(page) if match[1] == "sh"][-1]
    commands = drill.replace("postgresql://localhost/purgatory", postgres.url)
    assert commands != drill
    done = run_commands(commands, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("serving at") == 2, done.stdout


def run_commands(commands, directory):
    """Run the commands of a page as a reader does; the first that fails ends them.

    A pipe fails with any of its commands, and curl with an answer of 400 or above.
    """
    kept = [line for line in commands.splitlines() if not line.startswith("pip ")]
    (directory / ".curlrc").write_text("fail-with-body\n")
    # What a command before the failure has started ends with it, and lets go of the output.
    kept.insert(0, "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT")
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(kept)],
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment() | {"CURL_HOME": str(directory)},
        timeout=800,
    )


@pytest.mark.parametrize(
    "commands",
    [
        "false\ntrue",
        "false | true",
        "ask() { false; echo; }\nask",
        "purgatory query\ntrue",
        "kill -0 $$ && false & wait $!\ntrue",
        "echo $UNSET",
        "curl -s http://127.0.0.1:9/ | cat\ntrue",
        "sleep 600 &\nfalse",
    ],
)
def test_a_command_that_fails_is_noticed(commands, tmp_path):
    """Commands end with the first failure, wherever on the page it is."""
    assert run_commands(commands, tmp_path).returncode != 0


def test_an_answer_that_refuses_is_noticed(tmp_path):
    """`curl -s` alone succeeds whatever it is answered."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        done = run_commands(f"curl -s http://127.0.0.1:{server.server_port}/ | cat", tmp_path)
        thread.join()
    assert done.returncode != 0
