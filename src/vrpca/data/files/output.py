"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vrpca.errors import DataError


def check_target(path: Path) -> None:
    """Raise unless a file can be made at `path`: before long work, not after it."""
    folder = path.parent
    if not folder.is_dir():
        raise DataError(f"{path} cannot be written: there is no folder {folder}. Create it first.")
    if path.is_dir():
        raise DataError(f"{path} cannot be written: it is a folder. Name a file.")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} cannot be written: it is a device or a pipe, not a file. Name a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataError(f"{path} cannot be written: the folder {folder} is read-only. Name another one.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; it becomes `path` at the end, or vanishes if anything goes wrong."""
    path = Path(os.path.realpath(path))  # a link stays, and the file that it names is replaced
    check_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
