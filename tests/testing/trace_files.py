"""Files of traces that the package itself would refuse to write."""

import gzip


def text_file(tmp_path, name, text):
    """Write a text, or bytes, into a file; compressed if its name ends in `.gz`."""
    path = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path
