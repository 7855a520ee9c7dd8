"""Scores as files, one format per suffix, and as text on stdout.

Scores need not fit in memory: they are computed into a mapped file, and written from there block by block.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from vrpca.data.files.extras import imported
from vrpca.data.files.paths import check_target, new_array, reserve, written_whole
from vrpca.data.source import Source
from vrpca.errors import OptionError

STDOUT = Path("-")
ROWS = 1 << 16  # of scores that are turned into text or Parquet at a time: some megabytes
DIGITS = {np.dtype(np.float32): 9, np.dtype(np.float64): 17}  # that tell all numbers of a type apart


@dataclass(frozen=True)
class Scores:
    """Scores with what belongs to them: names of samples and features where they are known, and the model."""

    values: np.ndarray
    rows: Sequence[str] | None
    model: Any

    @property
    def columns(self) -> list[str]:
        """Names of the components."""
        return [f"pc{j + 1}" for j in range(self.values.shape[1])]

    def blocks(self) -> Iterator[tuple[Sequence[str] | None, np.ndarray]]:
        """Some samples at a time: their names, if they have any, and their scores."""
        for lo in range(0, len(self.values), ROWS):
            names = None if self.rows is None else self.rows[lo : lo + ROWS]
            yield names, self.values[lo : lo + ROWS]


def check_scores(path: Path) -> None:
    """Raise unless scores can be written to such a file: before long work, not after it."""
    if path == STDOUT:
        return
    if path.suffix not in FORMATS:
        raise OptionError(
            f"Scores cannot be written as {path.suffix or 'a file without suffix'}: name a file that ends in "
            f"{', '.join(FORMATS)}, or - for text on stdout."
        )
    if path.suffix in LIBRARIES:
        _library(path.suffix)
    check_target(path)


def write_scores(model: Any, source: Source, path: Path) -> tuple[tuple[int, int], np.dtype]:
    """Project a source onto the components of a model, and write the scores; return their shape and type."""
    shape = (source.shape[0], model.n_components_)
    dtype = np.result_type(source.dtype, model.components_.dtype)
    if path == STDOUT:
        write_delimited(sys.stdout, _computed(model, source, shape, dtype, None), ",")
        return shape, dtype
    with written_whole(path) as temporary:
        write = FORMATS[path.suffix]
        if write is not None:
            write(temporary, _computed(model, source, shape, dtype, path.parent))
        else:
            values = new_array(temporary, shape, dtype)
            model._transform(source, values)
            values.flush()
    return shape, dtype


def _computed(model: Any, source: Source, shape: tuple[int, int], dtype: np.dtype, folder: Path | None) -> Scores:
    """Scores in a file without a name, which vanishes with them."""
    with tempfile.TemporaryFile(dir=folder) as file:
        reserve(file, shape[0] * shape[1] * dtype.itemsize)
        values: np.ndarray = np.memmap(file, dtype, "r+", 0, shape)
    model._transform(source, values)
    return Scores(values, source.row_names, model)


def write_delimited(file: IO[str], scores: Scores, delimiter: str) -> None:
    """Text with a line of names; the names of samples, where there are any, come first."""
    named = scores.rows is not None
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["sample", *scores.columns] if named else scores.columns)
    number = f"%.{DIGITS[scores.values.dtype]}g"
    for names, block in scores.blocks():
        rows = ([number % value for value in row] for row in block.tolist())
        writer.writerows(rows if names is None else ([name, *row] for name, row in zip(names, rows, strict=True)))


def _write_text(delimiter: str) -> Callable[[Path, Scores], None]:
    def write(path: Path, scores: Scores) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            write_delimited(file, scores, delimiter)

    return write


def _write_parquet(path: Path, scores: Scores) -> None:
    import pyarrow.parquet as parquet

    pa = _library(".parquet")
    fields = [(name, pa.from_numpy_dtype(scores.values.dtype)) for name in scores.columns]
    schema = pa.schema(fields if scores.rows is None else [("sample", pa.string()), *fields])
    with parquet.ParquetWriter(path, schema) as writer:
        for names, block in scores.blocks():
            columns = [pa.array(np.ascontiguousarray(column)) for column in block.T]
            columns = columns if names is None else [pa.array(list(names), pa.string()), *columns]
            writer.write_table(pa.table(columns, schema=schema))


def _write_h5ad(path: Path, scores: Scores) -> None:
    """The scores, the components and their variances, in the places where scanpy keeps them."""
    h5py, model = _library(".h5ad"), scores.model
    n, d = len(scores.values), model.components_.shape[1]
    features = getattr(model, "feature_names_in_", None)
    variances = {"variance": model.explained_variance_, "variance_ratio": model.explained_variance_ratio_}
    with h5py.File(path, "w") as file:
        _encoded(file, "anndata", "0.1.0")
        for name, names, count in (("obs", scores.rows, n), ("var", features, d)):
            index = [str(i) for i in range(count)] if names is None else list(names)
            _write_names(file.create_group(name), index, h5py.string_dtype())
        for name, entries in (
            ("obsm", {"X_pca": scores.values}),
            ("varm", {"PCs": model.components_.T}),
            ("uns", {}),
            ("uns/pca", variances),
            ("layers", {}),
            ("obsp", {}),
            ("varp", {}),
        ):
            group = file.create_group(name)
            _encoded(group, "dict", "0.1.0")
            for key, values in entries.items():
                _encoded(group.create_dataset(key, data=values), "array", "0.2.0")


def _write_names(table: Any, index: list[str], text: Any) -> None:
    """A table without columns, in the form that AnnData reads."""
    _encoded(table, "dataframe", "0.2.0")
    table.attrs["_index"] = "_index"
    table.attrs.create("column-order", np.empty(0, dtype="S1"))
    _encoded(table.create_dataset("_index", data=index, dtype=text), "string-array", "0.2.0")


def _encoded(place: Any, kind: str, version: str) -> None:
    place.attrs["encoding-type"], place.attrs["encoding-version"] = kind, version


def _library(suffix: str) -> Any:
    module, extra = LIBRARIES[suffix]
    return imported(module, extra, f"{suffix} files cannot be written without {module}")


FORMATS: dict[str, Callable[[Path, Scores], None] | None] = {
    ".npy": None,  # written as it is computed
    ".csv": _write_text(","),
    ".tsv": _write_text("\t"),
    ".parquet": _write_parquet,
    ".h5ad": _write_h5ad,
}
LIBRARIES = {".parquet": ("pyarrow", "parquet"), ".h5ad": ("h5py", "h5ad")}  # and the extras that bring them
