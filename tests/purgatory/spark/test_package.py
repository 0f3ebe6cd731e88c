"""What spark-submit takes along."""

import ast
from zipfile import ZipFile

import pytest

from purgatory.spark.package import write_package
from purgatory.trace.path_conflicts import PathConflict


def test_the_package_has_what_its_modules_import(tmp_path):
    """All packages of ours that a module imports are there, and nothing that is compiled."""
    archive, program = write_package(tmp_path / "new")
    with ZipFile(archive) as packed:
        names = packed.namelist()
        ours = {name.partition("/")[0] for name in names}
        imported = {
            name.name.partition(".")[0]
            for file in ("purgatory/__init__.py", "timingwheel/__init__.py", "mq/__init__.py")
            for node in ast.walk(ast.parse(packed.read(file)))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")]
            )
        }
    assert {name for name in imported if name.startswith(("purgatory", "_purgatory"))} <= ours
    assert not [name for name in names if name.endswith((".so", ".pyc"))]
    assert "purgatory.cli" in program.read_text()


def test_the_same_packages_give_the_same_bytes(tmp_path):
    """So that a cluster need not fetch the zip again."""
    first, second = (write_package(tmp_path / name)[0].read_bytes() for name in ("a", "b"))
    assert first == second


def test_an_interrupt_leaves_the_former_zip(tmp_path, monkeypatch):
    """One without all files would be found out on the cluster."""
    archive, _ = write_package(tmp_path)
    before = archive.read_bytes()

    def interrupt(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("purgatory.spark.package._write_zip", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_package(tmp_path)
    assert archive.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_read_only_file_is_not_replaced(tmp_path, number):
    """Neither is: they are looked at before the first is written."""
    files = write_package(tmp_path)
    for file in files:
        file.write_text("former")
    files[number].chmod(0o444)
    with pytest.raises(PathConflict, match="is read-only"):
        write_package(tmp_path)
    assert [file.read_text() for file in files] == ["former", "former"]
