"""What the tests of commands share."""

import pytest

from purgatory import cli


@pytest.fixture
def run(capsys):
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*argv):
        code = cli.main([str(word) for word in argv])
        out, err = capsys.readouterr()
        return code, out, err

    return run
