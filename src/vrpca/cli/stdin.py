"""Data from stdin: copied to a temporary file, since they are read more than once.

The file, and what it is converted to, are removed when the command ends.
"""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from vrpca.data.files.cache import kept_beside
from vrpca.errors import DataError

AFTERWARDS = ExitStack()  # what is to be closed when the command ends
START = 16  # bytes that tell the formats apart
MAGIC = {  # what files begin with, and the suffix that they are opened by
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\x89HDF\r\n\x1a\n": ".h5",
    b"%%MatrixMarket": ".mtx",
    b"\x1f\x8b": ".csv.gz",
}


def from_stdin() -> str:
    """Copy stdin to a file, and return its name. What has no mark of its own is taken for CSV."""
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError("DATA is -, but nothing is piped to stdin: pipe data in, or name a file.")
    folder = _temporary_folder()
    AFTERWARDS.enter_context(kept_beside(folder))
    stream = sys.stdin.buffer
    start = stream.read(START)
    if not start:
        raise DataError("stdin is empty: pipe data in, or name a file.")
    suffix = next((suffix for mark, suffix in MAGIC.items() if start.startswith(mark)), ".csv")
    path = folder / f"stdin{suffix}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return str(path)


def _temporary_folder() -> Path:
    """Make a folder that is removed when the command ends.

    Its removal is arranged before it is made: a signal in between leaves nothing behind.
    """
    folder = Path(tempfile.gettempdir()) / f"vrpca-stdin-{secrets.token_hex(8)}"
    AFTERWARDS.callback(_remove, folder)
    folder.mkdir(mode=0o700)
    return folder


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
