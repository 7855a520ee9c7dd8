"""Arrow data, read by pyarrow: IPC files (``.arrow``, ``.feather``), tables in memory and datasets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from vrpca.data.files.arrow_columns import Layout
from vrpca.data.files.columnar import WIDEST, ColumnarFile, Columns, LazyNames
from vrpca.data.files.extras import needs
from vrpca.data.files.remote import Location
from vrpca.typing import Array

TABLE_GROUP = 1 << 16  # rows of a table in memory that are shuffled together; a table can be read from any row


def open_matrix(path: Path | Location) -> IpcFile:
    """The table as a matrix that is read block by block."""
    return IpcFile(path)


class ArrowSource(ColumnarFile):
    """Record batches with a schema."""

    def __init__(self, name: str, paths: Sequence[Path], layout: Layout, starts: Array, rows: int):
        self.layout = layout
        groups = np.flatnonzero(np.diff(np.append(starts, rows)))  # those without rows are left out
        super().__init__(name, paths, (rows, layout.width), layout.dtype, starts[groups])
        self.numbers_of_groups = groups
        self.column_names = layout.column_names
        if layout.row_names is not None:
            self.row_names = LazyNames(rows, self._read_row_names)

    @abstractmethod
    def record_batches(self, group: int, names: list[str], rows: int) -> Iterator[Any]:
        """Yield record batches from the start of a group on."""

    def batches(self, group: int, columns: slice, rows: int) -> Iterator[Columns]:
        """The numbers in the record batches."""
        number, first = int(self.numbers_of_groups[group]), int(self.groups[group])
        found = self.record_batches(number, self.layout.chosen(columns), rows)
        return self.layout.numbers(found, columns, first)

    def _read_row_names(self) -> list[str]:
        name = str(self.layout.row_names)
        batches = self.record_batches(0, [name], TABLE_GROUP)
        return [str(each) for batch in batches for each in batch.column(name).to_pylist()]


class IpcFile(ArrowSource):
    """A file of record batches, mapped into memory."""

    def __init__(self, path: Path | Location):
        self.path, self.limited = path, False
        reader = self._open()
        first = self._open(reader.schema.names[:1])  # one column is enough to count rows: the others stay packed
        counts = [first.get_batch(i).num_rows for i in range(first.num_record_batches)]
        layout = Layout.of(str(path), reader.schema)
        paths = [path] if isinstance(path, Path) else []
        super().__init__(str(path), paths, layout, np.cumsum([0, *counts])[:-1], sum(counts))

    def _open(self, names: list[str] | None = None) -> Any:
        pyarrow = needs("pyarrow", "parquet", str(self.path))
        opened = pyarrow.OSFile if self.limited else pyarrow.memory_map  # pages of a map count as memory
        file = self.path.arrow_file() if isinstance(self.path, Location) else opened(str(self.path))
        reader = pyarrow.ipc.open_file(file)
        if names is None:
            return reader
        fields = [reader.schema.get_field_index(name) for name in names]
        return pyarrow.ipc.open_file(file, options=pyarrow.ipc.IpcReadOptions(included_fields=fields))

    def within(self, block_bytes: int) -> Self:
        """The same with smaller blocks, and without a map of the file."""
        other = super().within(block_bytes)
        other.limited = True
        return other

    def group_memory(self) -> int:
        """Bytes of a record batch, which is read whole, as it is stored and unpacked."""
        return 2 * self.largest_group * self.shape[1] * WIDEST

    def record_batches(self, group: int, names: list[str], rows: int) -> Iterator[Any]:
        """The batches of the file, whatever their length: most columns are used where they are mapped."""
        reader = self._open(names)
        return (reader.get_batch(number) for number in range(group, reader.num_record_batches))


class TableSource(ArrowSource):
    """A table in memory."""

    slow_to_read = False

    def __init__(self, table: Any):
        self.table = table
        layout = Layout.of("The table", table.schema)
        super().__init__("The table", [], layout, np.arange(0, table.num_rows, TABLE_GROUP), table.num_rows)

    def record_batches(self, group: int, names: list[str], rows: int) -> Iterator[Any]:
        """The chunks of the table."""
        return iter(self.table.select(names).slice(group * TABLE_GROUP).to_batches(max_chunksize=rows))


class DatasetSource(ArrowSource):
    """A dataset (`pyarrow.dataset`): its fragments, usually files, one after the other."""

    unlimited = "pyarrow decides how much of a dataset it reads ahead. Pass the paths of its files"

    def __init__(self, dataset: Any):
        self.dataset = dataset
        self.fragments = list(dataset.get_fragments())
        counts = [fragment.count_rows() for fragment in self.fragments]
        # Only datasets of files have names of files; tables and generators of batches are datasets as well.
        files = [Path(file) for file in getattr(dataset, "files", [])]
        paths = [file for file in files if file.is_file()]
        layout = Layout.of("The dataset", dataset.schema)
        super().__init__("The dataset", paths, layout, np.cumsum([0, *counts])[:-1], sum(counts))

    def record_batches(self, group: int, names: list[str], rows: int) -> Iterator[Any]:
        """The batches of the fragments."""
        for fragment in self.fragments[group:]:
            yield from fragment.to_batches(schema=self.dataset.schema, columns=names, batch_size=rows)
