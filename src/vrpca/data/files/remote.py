"""Data that are named by an address, such as ``s3://bucket/data.parquet``, read through fsspec."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from vrpca.data.files.extras import needs
from vrpca.errors import DataError

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # two letters at least: C:// is a folder on Windows


@dataclass(frozen=True)
class Location:
    """Where data lie that are no local file."""

    address: str

    def __str__(self) -> str:
        return self.address

    @property
    def system(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        fsspec = needs("fsspec", "remote", self.address)
        try:
            return fsspec.core.url_to_fs(self.address)
        except (ValueError, ImportError) as error:  # a protocol that is not known, or whose package is missing
            raise DataError(f"{self.address} cannot be opened: {error}. Install what fsspec asks for.") from error

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of the file; none where there is a folder."""
        system, path = self.system
        try:
            if system.isdir(path):
                return b""
            with system.open(path, "rb") as file:
                return file.read(count)
        except FileNotFoundError:
            raise DataError(f"There is no file {self.address}: check the address.") from None
        except OSError as error:
            raise DataError(f"{self.address} cannot be read: {error}. Check the address and your access.") from error

    def arrow_file(self) -> Any:
        """The file as pyarrow takes it."""
        fs = needs("pyarrow.fs", "parquet", self.address)
        system, path = self.system
        return fs.PyFileSystem(fs.FSSpecHandler(system)).open_input_file(path)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an address.

    >>> is_address("s3://bucket/data.parquet"), is_address("C:/data.npy"), is_address("folder/data.npy")
    (True, False, False)
    """
    return isinstance(path, str) and ADDRESS.match(path) is not None
