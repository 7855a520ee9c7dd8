"""Where text comes from: a file here or, through fsspec, elsewhere; either may be compressed with gzip."""

from __future__ import annotations

import gzip
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from vrpca.data.files.paths import damage_reported, open_file
from vrpca.data.files.remote import Location
from vrpca.errors import DataError

GZIP = b"\x1f\x8b"  # the first bytes of what gzip has written
CHUNK = 16 << 20  # bytes of text that are converted at a time


class Origin(ABC):
    """A text that is going to be converted."""

    name: str  # for messages
    paths: tuple[Path, ...] = ()  # files here, which can be watched

    @abstractmethod
    def key(self) -> list[str]:
        """Where the text is, then what changes when it is written anew."""

    @abstractmethod
    def raw(self) -> IO[bytes]:
        """The bytes as they are stored."""

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The text, decompressed. Whatever goes wrong while it is read is an error that names it."""
        with damage_reported(self.name, "is truncated or damaged", "Write or copy it again"), self.raw() as file:
            packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            if not packed:
                yield file
                return
            with gzip.open(file) as text:
                yield cast(IO[bytes], text)

    def start(self, count: int) -> bytes:
        """The first bytes of the text."""
        with self.opened() as file:
            return file.read(count)

    def chunks(self) -> Iterator[bytes]:
        """The text in pieces of whole lines."""
        with self.opened() as file:
            rest = b""
            while piece := file.read(CHUNK):
                end = piece.rfind(b"\n") + 1
                if end:
                    yield rest + piece[:end]
                    rest = piece[end:]
                else:
                    rest += piece
            if rest:
                yield rest


class LocalFile(Origin):
    """A file of this machine."""

    def __init__(self, path: Path):
        self.path, self.name, self.paths = path, str(path), (path,)

    def key(self) -> list[str]:
        """Its absolute name, then its size and time."""
        found = os.stat(self.path)
        return [os.path.realpath(self.path), str(found.st_size), str(found.st_mtime_ns)]

    def raw(self) -> IO[bytes]:
        """The file."""
        return open_file(self.path, "data")


class RemoteFile(Origin):
    """A file that fsspec knows how to read."""

    def __init__(self, place: Location):
        self.name = place.address
        self.system, self.inner = place.system
        if not self.system.isfile(self.inner):
            raise DataError(f"There is no data file {place}: check the address.")

    def key(self) -> list[str]:
        """Its address, then what fsspec says changes with the file."""
        return [self.name, str(self.system.ukey(self.inner))]

    def raw(self) -> IO[bytes]:
        """The file."""
        return self.system.open(self.inner, "rb")


def origin_of(path: Path | Location) -> Origin:
    """The text at a path or an address."""
    return RemoteFile(path) if isinstance(path, Location) else LocalFile(path)
