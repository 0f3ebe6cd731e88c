"""Packages of other distributions with our names are found when they are imported."""

import subprocess
import sys
from pathlib import Path

import pytest

import purgatory


@pytest.mark.parametrize("name", ["timingwheel", "mq"])
def test_another_distributions_package_is_named(tmp_path, name):
    """The import of the roof fails, and says which file is not ours."""
    foreign = tmp_path / name / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text("")
    paths = [str(tmp_path), str(Path(purgatory.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths}; import purgatory"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {foreign} belongs to another distribution")
    assert f"expected the package {name!r} of timer-purgatory" in last
