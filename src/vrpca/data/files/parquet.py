"""``.parquet`` files, read by pyarrow: row group by row group, or in parts where these are large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from vrpca.data.files.arrow_columns import Layout
from vrpca.data.files.columnar import ColumnarFile, Columns, LazyNames
from vrpca.data.files.extras import needs
from vrpca.data.files.remote import Location
from vrpca.typing import Array


def open_matrix(path: Path | Location) -> ParquetFile | Array:
    """The table as a matrix that is read block by block; an array where it has no rows."""
    file = open_parquet(path)
    if file.metadata.num_rows == 0:  # one of several files may be empty
        layout = Layout.of(str(path), file.schema_arrow)
        return np.empty((0, layout.width), layout.dtype)
    return ParquetFile(path)


def open_parquet(path: Path | Location, limited: bool = False) -> Any:
    """The file as pyarrow has it. Where memory is limited, no more than a row group is read ahead."""
    parquet = needs("pyarrow.parquet", "parquet", str(path))
    if isinstance(path, Location):
        return parquet.ParquetFile(path.arrow_file(), pre_buffer=not limited, page_checksum_verification=True)
    # Pages are decoded from a map of the file. They stay in memory while it is open, so there is none under a limit.
    return parquet.ParquetFile(path, memory_map=not limited, pre_buffer=False, page_checksum_verification=True)


class ParquetFile(ColumnarFile):
    """A Parquet file. Streams can be opened at its row groups."""

    def __init__(self, path: Path | Location):
        self.path, self.limited = path, False
        file = open_parquet(path)
        self.layout = Layout.of(str(path), file.schema_arrow)
        row_groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        counts = [group.num_rows for group in row_groups]
        self.group_bytes = max(int(group.total_byte_size) for group in row_groups)  # unpacked
        self.row_groups = np.flatnonzero(counts)  # groups without rows are left out
        groups = np.cumsum([0, *counts])[self.row_groups]
        paths = [path] if isinstance(path, Path) else []
        super().__init__(str(path), paths, (sum(counts), self.layout.width), self.layout.dtype, groups)
        self.column_names = self.layout.column_names
        if self.layout.row_names is not None:
            self.row_names = LazyNames(self.shape[0], self._read_row_names)

    def within(self, block_bytes: int) -> Self:
        """The same with smaller blocks, and without a map of the file."""
        other = super().within(block_bytes)
        other.limited = True
        return other

    def group_memory(self) -> int:
        """Bytes of a row group, as it is stored and unpacked: pages may be as large as it is."""
        return 2 * self.group_bytes

    def batches(self, group: int, columns: slice, rows: int) -> Iterator[Columns]:
        """Batches that pyarrow decodes on its threads."""
        found = open_parquet(self.path, self.limited).iter_batches(
            batch_size=rows, row_groups=self.row_groups[group:].tolist(), columns=self.layout.chosen(columns)
        )
        return self.layout.numbers(found, columns, int(self.groups[group]))

    def _read_row_names(self) -> list[str]:
        column = open_parquet(self.path).read(columns=[self.layout.row_names]).column(0)
        return [str(name) for name in column.to_pylist()]
