"""svmlight and libsvm (``.svmlight``, ``.libsvm``, ``.svm``): sparse rows with labels, converted once.

Labels are ignored. Columns are counted from 1 if no row has a column 0, as scikit-learn guesses.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from vrpca.data.files.cache import CsrWriter, Facts, converted, open_sparse
from vrpca.data.files.matrix_market import check_values
from vrpca.data.files.npy import map_array
from vrpca.data.files.origin import CHUNK, Origin, origin_of
from vrpca.data.files.remote import Location
from vrpca.data.files.text_numbers import first_bad
from vrpca.errors import DataError
from vrpca.typing import Array

WIDEST = 2**31 - 1  # more columns than any row has: scikit-learn wants a number for parts of a file


def open_matrix(path: Path | Location, limited: bool = False) -> Any:
    """The matrix, converted; it stays on disk where memory is limited."""
    origin = origin_of(path)
    folder, facts = converted(origin, lambda folder: _convert(origin, folder))
    return open_sparse(folder, origin, (facts["rows"], facts["columns"]), limited)


def _convert(origin: Origin, folder: Path) -> Facts:
    line, least, most = 1, WIDEST, -1
    with CsrWriter(folder) as out:
        for chunk in origin.chunks():
            X = _parsed(origin, line, chunk)
            if not np.isfinite(X.data).all():
                rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)) + out.rows
                check_values(origin, np.column_stack([rows, X.indices]), X.data)
            least, most = min(least, X.indices.min(initial=WIDEST)), max(most, X.indices.max(initial=-1))
            out.append(X)
            line += chunk.count(b"\n")
    from_one = int(least > 0 and most >= 0)
    if from_one:
        _subtract_one(folder / "indices.npy")
    return {"rows": out.rows, "columns": int(most) + 1 - from_one}


def _parse(text: bytes) -> Any:
    return load_svmlight_file(io.BytesIO(text), n_features=WIDEST, zero_based=True)[0]


def _parsed(origin: Origin, line: int, chunk: bytes) -> Any:
    try:
        return _parse(chunk)
    except (ValueError, IndexError, OverflowError) as error:
        lines = chunk.splitlines(keepends=True)
        bad = first_bad(lines, _parse)
        shown = lines[bad][:60].decode("latin-1").strip()
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{origin.name}: line {line + bad} is {shown!r}, which is not a label and pairs of a column and a number, "
            f"in ascending columns of 0 to {WIDEST - 1} ({reason}). Write it again."
        ) from error


def _subtract_one(path: Path) -> None:
    indices: Array = np.memmap(path, np.int32, "r+", _offset(path))
    for start in range(0, len(indices), CHUNK):
        indices[start : start + CHUNK] -= 1
    indices.flush()  # type: ignore[attr-defined]


def _offset(path: Path) -> int:
    return path.stat().st_size - map_array(path).nbytes
