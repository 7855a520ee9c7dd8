"""Arrays in NumPy's formats: the header of an array, and archives of arrays."""

from __future__ import annotations

import io
import math
import struct
import zipfile
from dataclasses import dataclass
from typing import IO, Any, Literal

import numpy as np

from vrpca.data.files.paths import Pickled
from vrpca.typing import Array

HEADER = 10_012  # bytes of the longest header: NumPy's limit of 10000 (numpy.lib.format), and 12 before it
# How many bytes a byte of a zip archive can stand for. Deflate needs two bits for a repetition of 258 bytes (RFC 1951).
INFLATION = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 4 * 258}

LOCAL_HEADER = struct.Struct("<4s22xHH")  # before a member of a zip archive: signature, lengths of name and extra field


@dataclass(frozen=True)
class Header:
    """What the header of an array in a file says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    offset: int  # of the numbers, after the header

    @classmethod
    def read(cls, file: IO[bytes]) -> Header:
        """Read the header, and no more than NumPy's limit for it."""
        start = io.BytesIO(file.read(HEADER))
        version = np.lib.format.read_magic(start)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"its format has version {version[0]}.{version[1]}, which is not known")
        # Version 3 differs from 2 only in the encoding of the names of fields, which no matrix has.
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        try:
            shape, fortran_order, dtype = read(start)
        except Exception as error:  # it is a Python expression: its parser has many ways to fail
            raise ValueError("the header of an array cannot be read") from error
        if min(shape, default=0) < 0:
            raise ValueError(f"an array has the shape {shape}")
        return cls(shape, dtype, "F" if fortran_order else "C", start.tell())

    @property
    def end(self) -> int:
        """Where the numbers end, in bytes."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def check(self, size: int) -> None:
        """Raise unless plain numbers follow, and end within a file of this size."""
        if self.dtype.hasobject:
            raise Pickled
        if self.end > size:
            raise ValueError(f"an array of shape {self.shape} needs {self.end} bytes, but there are {size}")


class Archive:
    """The arrays of a .npz file, by name. To read one takes no more memory than the file can hold."""

    def __init__(self, file: IO[bytes], compressed: bool = True):
        self.zip = zipfile.ZipFile(file)
        self.inflation = INFLATION if compressed else {zipfile.ZIP_STORED: 1}
        members = [member for member in self.zip.infolist() if member.filename.endswith(".npy")]
        self.members = {member.filename.removesuffix(".npy"): member for member in members}

    def header(self, name: str) -> Header:
        """The header of an array."""
        with self.zip.open(self.members[name]) as file:
            return Header.read(file)

    def offset(self, name: str) -> int | None:
        """Where the numbers of an array begin in the file; None where they are compressed."""
        member, file = self.members[name], self.zip.fp
        if member.compress_type != zipfile.ZIP_STORED or file is None:
            return None
        file.seek(member.header_offset)
        signature, name_length, extra_length = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise ValueError(f"{name} has no header of its own")
        begin = member.header_offset + LOCAL_HEADER.size + name_length + extra_length
        return begin + self.header(name).offset

    def check(self, name: str) -> None:
        """Raise unless the member holds exactly the array that its header declares. Nothing of it is read."""
        member = self.members[name]
        inflation = self.inflation.get(member.compress_type)
        if inflation is None:
            raise ValueError(f"{name} is compressed in a way that is not used for such files")
        if member.file_size > inflation * member.compress_size:
            raise ValueError(f"{name} cannot have {member.file_size} bytes: only {member.compress_size} are stored")
        header = self.header(name)
        header.check(member.file_size)
        if header.end != member.file_size:
            raise ValueError(f"{name} has {member.file_size} bytes, but its header says {header.end}")

    def read(self, name: str) -> Array:
        """The array; its checksum is checked as well."""
        self.check(name)
        with self.zip.open(self.members[name]) as file:
            return np.lib.format.read_array(file, allow_pickle=False)
