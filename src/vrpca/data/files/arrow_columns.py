"""Arrow tables as matrices: which columns hold the numbers, which one the names of the rows, and their conversion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.data.files.columnar import Columns
from vrpca.data.source import working_dtype
from vrpca.errors import DataError
from vrpca.typing import Array

NUMBERS = "Drop it, or encode it as numbers"


@dataclass(frozen=True)
class Layout:
    """The columns of a table that make up the matrix."""

    source: str  # what the table is called in messages
    names: tuple[str, ...]  # of the columns that hold numbers
    dtype: np.dtype  # the working type
    row_names: str | None  # the column with the names of the rows, if there is one
    list_size: int | None = None  # entries of every list, where the one column holds lists
    decimals: frozenset[str] = frozenset()  # columns of decimal numbers

    @classmethod
    def of(cls, source: str, schema: Any) -> Layout:
        """Find the columns. The index of pandas, or one leading column of text, names the rows."""
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"{source} has two columns of the same name. Rename one of them.")
        index = _pandas_index(schema)
        data = [field for field in schema if field.name not in index]
        if not index and len(data) > 1 and _is_text(data[0].type):
            index, data = (data[0].name,), data[1:]
        if not data:
            raise DataError(f"{source} has no columns of numbers. Write at least one.")
        row_names, names = index[0] if len(index) == 1 else None, tuple(field.name for field in data)
        size = _list_size(data[0].type) if len(data) == 1 else None
        if size is not None:
            dtype = _working(source, names[0], data[0].type.value_type)
            return cls(source, names, dtype, row_names, size)
        dtype = np.result_type(*(_working(source, field.name, field.type) for field in data))
        decimals = frozenset(field.name for field in data if _is_decimal(field.type))
        return cls(source, names, dtype, row_names, None, decimals)

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return len(self.names) if self.list_size is None else self.list_size

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """The names of the features."""
        return self.names if self.list_size is None else None

    def chosen(self, columns: slice) -> list[str]:
        """The columns of the table that hold these columns of the matrix."""
        return list(self.names[columns] if self.list_size is None else self.names)

    def numbers(self, batches: Iterator[Any], columns: slice, row: int) -> Iterator[Columns]:
        """The numbers in record batches; the first of them begins at this row."""
        names, places = self.chosen(columns), None
        for batch in batches:
            if places is None:  # to look names up for every batch costs more than to convert numbers
                places = [batch.schema.get_field_index(name) for name in names]
            found = batch.columns
            if self.list_size is not None:
                yield self._lists(found[places[0]], row)[:, columns]
            else:
                yield [self._plain(found[place], name, row) for place, name in zip(places, names, strict=True)]
            row += batch.num_rows

    def _plain(self, column: Any, name: str, row: int) -> Array:
        if column.null_count:
            raise self._missing(column, name, row)
        if name in self.decimals:
            column = column.cast("float64")
        return column.to_numpy(zero_copy_only=False)

    def _lists(self, column: Any, row: int) -> Array:
        values = column.flatten()
        if column.null_count:
            raise self._missing(column, self.names[0], row)
        if values.null_count:
            raise self._missing(values, self.names[0], row, self.list_size)
        return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)

    def _missing(self, column: Any, name: str, row: int, per_row: int | None = 1) -> DataError:
        place = row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) // (per_row or 1)
        remedy = "Impute or drop such rows first"
        return DataError(f"{self.source}: column {name!r} has no value in row {place}. {remedy}.")


def _pandas_index(schema: Any) -> tuple[str, ...]:
    """The columns that pandas wrote its index to."""
    try:
        found = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):  # written by something else
        return ()
    return tuple(name for name in found if isinstance(name, str) and name in schema.names)


def _is_text(kind: Any) -> bool:
    import pyarrow

    checks = ("is_string", "is_large_string", "is_string_view")
    return any(getattr(pyarrow.types, check)(kind) for check in checks if hasattr(pyarrow.types, check))


def _is_decimal(kind: Any) -> bool:
    import pyarrow

    return pyarrow.types.is_decimal(kind)


def _list_size(kind: Any) -> int | None:
    import pyarrow

    return kind.list_size if pyarrow.types.is_fixed_size_list(kind) else None


def _working(source: str, name: str, kind: Any) -> np.dtype:
    """The working type of a column, or an error that names it."""
    import pyarrow

    types = pyarrow.types
    if _is_decimal(kind):
        return np.dtype(np.float64)
    if types.is_dictionary(kind):
        remedy = "Write its values (in pandas: astype; in Arrow: dictionary_decode)"
        raise DataError(f"{source}: column {name!r} is dictionary-encoded ({kind}). {remedy}, or drop it.")
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise DataError(f"{source}: column {name!r} is of type {kind}, which is not a number. {NUMBERS}.")
    return working_dtype(np.dtype(kind.to_pandas_dtype()))
