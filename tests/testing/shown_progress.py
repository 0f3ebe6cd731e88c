"""What a command says of its progress, which only a terminal shows."""

from contextlib import contextmanager


def record(monkeypatch, command):
    """Have the module of a command add its texts to the returned list, at begin and end of each."""
    texts = []

    @contextmanager
    def shown(text):
        texts.append(text())
        yield
        texts.append(text())

    monkeypatch.setattr(command, "progress_shown", shown)
    return texts
