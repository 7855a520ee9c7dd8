"""Lazy frames of polars: the query is run once for every pass, and its rows come in its own order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vrpca.data.files.columnar import ColumnarFile, Columns
from vrpca.data.frames import column_dtype
from vrpca.errors import DataError

NAME = "The lazy frame"


class LazyFrameSource(ColumnarFile):
    """A lazy frame. It can be read from its beginning only."""

    unlimited = "polars decides how much a lazy frame takes. Write it to a file (sink_parquet), and pass its path"

    def __init__(self, frame: Any):
        import polars

        self.frame, schema = frame, frame.collect_schema()
        if not schema:
            raise DataError(f"{NAME} has no columns. Select at least one.")
        rows = int(frame.select(polars.len()).collect().item())
        dtype = np.result_type(*(column_dtype(name, kind) for name, kind in schema.items()))
        super().__init__(NAME, [], (rows, len(schema)), dtype, np.zeros(1, np.int64))
        self.column_names = tuple(schema.names())

    def batches(self, group: int, columns: slice, rows: int) -> Iterator[Columns]:
        """The frames that the query gives; polars turns columns into rows faster than we could."""
        row = 0
        assert self.column_names is not None
        for frame in self._frames(list(self.column_names[columns]), rows):
            _check_nulls(frame, row)
            yield frame.to_numpy(order="c")
            row += frame.height

    def _frames(self, names: list[str], rows: int) -> Iterator[Any]:
        import polars

        kind = polars.Float32 if self.dtype == np.float32 else polars.Float64
        query = self.frame.select(polars.col(names).cast(kind))
        if hasattr(query, "collect_batches"):  # polars has it since 1.34
            yield from query.collect_batches(chunk_size=rows, maintain_order=True)
            return
        for start in range(0, self.shape[0], rows):
            yield query.slice(start, rows).collect()


def _check_nulls(frame: Any, row: int) -> None:
    """Raise where a value is missing; the frame begins at this row."""
    counts = frame.null_count().row(0)
    if not any(counts):
        return
    column = frame.get_columns()[int(np.flatnonzero(counts)[0])]
    place = row + int(column.is_null().arg_max())
    raise DataError(f"{NAME}: column {column.name!r} has no value in row {place}. Impute or drop such rows first.")
