"""MatrixMarket (``.mtx``, ``.mtx.gz``): sparse or dense, general, symmetric or skew-symmetric; converted once.

Sparse matrices are sorted into CSR with little memory, whatever the order of their entries. Entries for the same place
are summed up, as scipy does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.buckets import Buckets
from vrpca.data.files.cache import Facts, GrowingArray, converted, open_dense, open_sparse
from vrpca.data.files.origin import Origin, origin_of
from vrpca.data.files.paths import new_array
from vrpca.data.files.remote import Location
from vrpca.data.files.text_numbers import first_bad, parse_numbers
from vrpca.errors import DataError
from vrpca.typing import Array

SYMMETRIES = {"general": 0, "symmetric": 1, "skew-symmetric": -1}  # by what a mirrored entry is multiplied
FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
LAYOUTS = ("coordinate", "array")
REMEDY = "Write it again, with scipy.io.mmwrite say"
MOST_COLUMNS = 2**31 - 1  # column numbers have 32 bits


def open_matrix(path: Path | Location, limited: bool = False) -> Any:
    """The matrix, converted; it stays on disk where memory is limited."""
    origin = origin_of(path)
    banner = Banner.of(origin)
    convert = _convert_sparse if banner.sparse else _convert_dense
    folder, _ = converted(origin, lambda folder: convert(origin, banner, folder))
    return open_sparse(folder, origin, banner.shape, limited) if banner.sparse else open_dense(folder, origin)


@dataclass(frozen=True)
class Banner:
    """What the first lines say."""

    sparse: bool
    pattern: bool  # entries are places without values
    mirrored: int  # what entries are multiplied by on the other side of the diagonal; 0 if there are none
    shape: tuple[int, int]
    entries: int  # lines that follow
    length: int  # bytes of these first lines
    lines: int  # how many they are

    @classmethod
    def of(cls, origin: Origin) -> Banner:
        """Read the first lines."""
        with origin.opened() as file:
            text = [file.readline()]
            while text[-1].startswith(b"%") or (text[-1] and not text[-1].strip()):
                text.append(file.readline())
        words = text[0].decode("latin-1").lower().split()
        if words[:2] != ["%%matrixmarket", "matrix"] or len(words) != 5:
            raise DataError(f"{origin.name} does not begin with a line of a MatrixMarket matrix. {REMEDY}.")
        layout, field, symmetry = words[2:]
        if layout not in LAYOUTS or field not in FIELDS or symmetry not in SYMMETRIES:
            raise DataError(
                f"{origin.name} is {layout} {field} {symmetry}, which is not supported. Write real numbers."
            )
        counts = _whole_numbers(text[-1])
        if len(counts) != (3 if layout == "coordinate" else 2):
            raise DataError(f"{origin.name}: line {len(text)} should have the size of the matrix. {REMEDY}.")
        shape, sparse = (counts[0], counts[1]), layout == "coordinate"
        if (symmetry != "general" and counts[0] != counts[1]) or counts[1] > MOST_COLUMNS:
            raise DataError(f"{origin.name}: line {len(text)}: a {symmetry} matrix cannot be {shape[0]} x {shape[1]}.")
        mirrored = SYMMETRIES[symmetry]
        entries = counts[2] if sparse else _stored(shape, mirrored)
        length = sum(map(len, text))
        return cls(sparse, field == "pattern", mirrored, shape, entries, length, len(text))


def _whole_numbers(line: bytes) -> list[int]:
    words = line.split()
    return [int(word) for word in words] if all(word.isdigit() for word in words) else []


def _stored(shape: tuple[int, int], mirrored: int) -> int:
    """How many numbers a dense matrix has in the file: with symmetry the lower triangle."""
    n, d = shape
    return n * d if mirrored == 0 else n * (n + mirrored) // 2


def _rows(origin: Origin, banner: Banner, width: int) -> Iterator[tuple[int, Array]]:
    """Yield (number of the first entry, entries as a matrix of `width` columns). There are as many as promised."""
    done, line = 0, 1 + banner.lines
    for number, chunk in enumerate(origin.chunks()):
        text = chunk[banner.length :] if number == 0 else chunk
        try:
            found = parse_numbers(text, width)
        except ValueError as error:
            lines = text.splitlines(keepends=True)
            bad = first_bad(lines, lambda part: parse_numbers(part, width))
            shown = lines[bad][:40].decode("latin-1").strip()
            raise DataError(
                f"{origin.name}: line {line + bad} is {shown!r}, not {width} number(s). The file is damaged. {REMEDY}."
            ) from error
        yield done, found
        done, line = done + len(found), line + text.count(b"\n")
        if done > banner.entries:
            break
    if done != banner.entries:
        what = "more" if done > banner.entries else f"only {done}"
        raise DataError(f"{origin.name} is damaged: it promises {banner.entries} entries and has {what}. {REMEDY}.")


def _convert_sparse(origin: Origin, banner: Banner, folder: Path) -> Facts:
    both = 1 if banner.mirrored == 0 else 2
    buckets = Buckets(folder, banner.shape, both * banner.entries)
    for first, entries in _rows(origin, banner, 2 if banner.pattern else 3):
        places, values = entries[:, :2] - 1, np.ones(len(entries)) if banner.pattern else entries[:, 2]
        _check_entries(origin, banner, first, places, values)
        rows, columns = places.astype(np.int64).T
        buckets.add(rows, columns, values)
        if banner.mirrored:
            off = rows != columns
            buckets.add(columns[off], rows[off], banner.mirrored * values[off])
    buckets.write()
    return {}


def _check_entries(origin: Origin, banner: Banner, first: int, places: Array, values: Array) -> None:
    """Raise unless the entries lie within the matrix and are finite."""
    sound = (places >= 0) & (places < banner.shape) & (places == np.floor(places))
    if not sound.all():
        bad = int(np.argmin(sound.all(axis=1)))
        row, column = places[bad] + 1
        raise DataError(
            f"{origin.name}: entry {first + bad + 1} is in row {row:g}, column {column:g}, outside of a matrix of "
            f"{banner.shape[0]} x {banner.shape[1]}, counted from 1. {REMEDY}."
        )
    check_values(origin, places, values)


def check_values(origin: Origin, places: Array, values: Array) -> None:
    """Raise unless the values at these places (row, column) are finite."""
    if np.isfinite(values).all():
        return
    bad = np.flatnonzero(~np.isfinite(values))[0]
    row, column = places[bad].astype(np.int64)
    what = "NaN" if np.isnan(values[bad]) else "infinity"
    raise DataError(
        f"{origin.name}: Input X contains {what} (row {row}, column {column}, counted from 0); it must hold finite "
        "numbers only. Impute or drop such rows first."
    )


def _convert_dense(origin: Origin, banner: Banner, folder: Path) -> Facts:
    n = banner.shape[0]
    if banner.mirrored or n == 0:
        return _convert_triangle(origin, banner, folder)
    with GrowingArray(folder / "X.npy", np.float64, n, order="F") as X:
        rest = np.empty(0)
        for first, numbers in _rows(origin, banner, 1):
            _check_dense(origin, n, first, numbers[:, 0])
            rest = np.concatenate([rest, numbers[:, 0]])
            whole = len(rest) // n * n
            X.append(rest[:whole].reshape(-1, n))
            rest = rest[whole:]
    return {}


def _check_dense(origin: Origin, n: int, first: int, values: Array) -> None:
    if not np.isfinite(values).all():
        where = first + np.arange(len(values))
        check_values(origin, np.column_stack([where % n, where // n]), values)


def _convert_triangle(origin: Origin, banner: Banner, folder: Path) -> Facts:
    """A symmetric matrix, of which the file has the columns of the lower triangle."""
    n, column, rest = banner.shape[0], 0, np.empty(0)
    X = new_array(folder / "X.npy", banner.shape, np.float64)
    begin = 0 if banner.mirrored > 0 else 1  # a skew-symmetric matrix has no diagonal
    for _, numbers in _rows(origin, banner, 1):
        rest = np.concatenate([rest, numbers[:, 0]])
        while column < n and len(rest) >= (count := n - column - begin):
            part, rest = rest[:count], rest[count:]
            check_values(origin, np.column_stack([column + begin + np.arange(count), np.full(count, column)]), part)
            X[column + begin :, column] = part
            X[column, column + begin :] = banner.mirrored * part
            column += 1
    X.flush()
    return {}
