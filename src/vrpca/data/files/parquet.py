"""``.parquet`` files, read by pyarrow: row group by row group, or in parts where these are large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.arrow_columns import Layout
from vrpca.data.files.columnar import ColumnarFile, Columns, LazyNames
from vrpca.data.files.extras import needs
from vrpca.data.files.remote import Location


def open_matrix(path: Path | Location) -> ParquetFile:
    """The table as a matrix that is read block by block."""
    return ParquetFile(path)


class ParquetFile(ColumnarFile):
    """A Parquet file. Streams can be opened at its row groups."""

    def __init__(self, path: Path | Location):
        self.path = path
        file = self._open()
        self.layout = Layout.of(str(path), file.schema_arrow)
        counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self.row_groups = np.flatnonzero(counts)  # groups without rows are left out
        groups = np.cumsum([0, *counts])[self.row_groups]
        paths = [path] if isinstance(path, Path) else []
        super().__init__(str(path), paths, (sum(counts), self.layout.width), self.layout.dtype, groups)
        self.column_names = self.layout.column_names
        if self.layout.row_names is not None:
            self.row_names = LazyNames(self.shape[0], self._read_row_names)

    def _open(self) -> Any:
        parquet = needs("pyarrow.parquet", "parquet", str(self.path))
        if isinstance(self.path, Location):
            return parquet.ParquetFile(self.path.arrow_file(), pre_buffer=True)
        # Pages are decoded from a map of the file: nothing but the batch that is asked for takes memory.
        return parquet.ParquetFile(self.path, memory_map=True, pre_buffer=False)

    def batches(self, group: int, columns: slice, rows: int) -> Iterator[Columns]:
        """Batches that pyarrow decodes on its threads."""
        found = self._open().iter_batches(
            batch_size=rows, row_groups=self.row_groups[group:].tolist(), columns=self.layout.chosen(columns)
        )
        return self.layout.numbers(found, columns, int(self.groups[group]))

    def _read_row_names(self) -> list[str]:
        column = self._open().read(columns=[self.layout.row_names]).column(0)
        return [str(name) for name in column.to_pylist()]
