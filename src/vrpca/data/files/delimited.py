"""Tables in text: CSV and TSV, with or without a header and names of rows, also compressed with gzip.

They are parsed by pyarrow and converted once (`cache.py`). Every field has to be a number, but for names.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.cache import Facts, GrowingArray, StoredNames, converted, open_dense
from vrpca.data.files.origin import CHUNK, Origin, origin_of
from vrpca.data.files.remote import Location
from vrpca.errors import DataError

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "#N/A", "?")
DELIMITERS = ",;\t|"
HEAD = 1 << 20  # bytes that tell the layout, if a few lines fit in them
RECORDS = 100  # records that tell the layout
LONGEST = 8  # times the longest of the first lines: a line may be as long
BAD_FIELD = re.compile(r"CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to \w+: (.*)", re.DOTALL)
BAD_LINE = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def open_matrix(path: Path | Location) -> Any:
    """The table, converted."""
    origin = origin_of(path)
    layout = Layout.of(origin)
    if layout.empty:  # one of several files may be; it is not worth keeping
        return np.empty((0, layout.width - layout.named_rows))
    folder, facts = converted(origin, lambda folder: _convert(origin, layout, folder))
    rows = StoredNames(folder, "row") if facts["row_names"] else None
    return open_dense(folder, origin, rows, facts["column_names"])


@dataclass(frozen=True)
class Layout:
    """How a table is laid out."""

    delimiter: str
    header: list[str] | None
    header_lines: int
    named_rows: bool  # the first column has names
    width: int  # number of fields of a record, names included
    block: int  # bytes to parse at a time: a line must fit
    empty: bool  # whether there is a header alone

    @classmethod
    def of(cls, origin: Origin) -> Layout:
        """The layout that the first lines show."""
        text = _head(origin)
        if not text.strip():
            raise DataError(f"{origin.name} is empty: write the data again.")
        longest = max(map(len, text.splitlines()))
        tabs = re.search(r"\.(tsv|tab)(\.gz)?$", origin.name.lower())
        delimiter = _delimiter(text, "\t" if tabs else ",")
        records = _records(text, delimiter)
        header, rest = (records[0], records[1:]) if _has_header(records) else (None, records)
        width = len(rest[0]) if rest else len(records[0])
        named = width > 1 and _has_row_names(header, rest, width)
        lines = 0 if header is None else _lines_of_first(text, delimiter)
        block = max(CHUNK, LONGEST * longest)
        return cls(delimiter, header, lines, named, width, block, not rest)

    @property
    def column_names(self) -> list[str] | None:
        """The names of the features."""
        if self.header is None:
            return None
        return [name.strip() for name in self.header[len(self.header) - self.width + self.named_rows :]]

    def place(self, row: int, column: int) -> str:
        """Where a number is, for messages."""
        names = self.column_names
        name = f"column {column}" if names is None else f"column {names[column]!r}"
        return f"row {row} (line {row + self.header_lines + 1}), {name}"


def _head(origin: Origin) -> str:
    """The first lines of the text."""
    count, start = HEAD, origin.start(HEAD)
    while len(start) == count and start.count(b"\n") < 3:
        count *= LONGEST
        start = origin.start(count)
    if len(start) == count:
        start = start[: start.rfind(b"\n") + 1]
    try:
        return start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = start[: error.start].count(b"\n") + 1
        raise DataError(f"{origin.name} is not UTF-8 text (line {line}): save it as UTF-8.") from error


def _records(text: str, delimiter: str) -> list[list[str]]:
    """The first records; empty lines are none."""
    found: list[list[str]] = []
    for record in csv.reader(text.splitlines(keepends=True), delimiter=delimiter):
        if record:
            found.append(record)
        if len(found) == RECORDS:
            break
    return found


def _lines_of_first(text: str, delimiter: str) -> int:
    """How many lines the first record and empty lines before it take."""
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    while not next(reader):
        pass
    return reader.line_num


def _delimiter(text: str, preferred: str) -> str:
    """The delimiter that makes the most fields numbers; the preferred one if several do."""
    candidates = [preferred, *DELIMITERS.replace(preferred, "")]
    return max(candidates, key=lambda delimiter: _numbers_found(_records(text, delimiter)))


def _numbers_found(records: Sequence[Sequence[str]]) -> float:
    """The part of the fields that are numbers, if records have the same length, of at least two."""
    body = records[1:] or records
    if not body or len(body[0]) < 2 or any(len(record) != len(body[0]) for record in body):
        return 0.0
    fields = [field for record in body for field in record]
    return sum(not _is_text(field) for field in fields) / len(fields)


def _is_text(field: str) -> bool:
    """Whether a field is neither a number nor missing."""
    if field.strip() in MISSING:
        return False
    try:
        float(field)
    except ValueError:
        return True
    return False


def _has_header(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first record has the names of the columns.

    >>> _has_header([["a", "b"], ["1", "2"]]), _has_header([["sample1", "3"], ["sample2", "4"]])
    (True, False)
    """
    first, rest = records[0], records[1:]
    if any(map(_is_text, first[1:])) or (rest and len(first) == len(rest[0]) - 1):
        return True
    if not rest:
        return len(first) == 1 and _is_text(first[0])
    unnamed = not first[0].strip() and bool(rest[0][0].strip())  # pandas leaves the name of the index empty
    return unnamed or (_is_text(first[0]) and not _is_text(rest[0][0]))


def _has_row_names(header: Sequence[str] | None, rest: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first column has names: it is text, or has no name of its own in the header."""
    if header is not None and (len(header) < width or not header[0].strip()):
        return True
    return any(_is_text(record[0]) for record in rest)


def _convert(origin: Origin, layout: Layout, folder: Path) -> Facts:
    d, row = layout.width - layout.named_rows, 0
    with (
        GrowingArray(folder / "X.npy", np.float64, d) as X,
        GrowingArray(folder / "row_letters.npy", np.uint8) as letters,
        GrowingArray(folder / "row_ends.npy", np.int64) as ends,
    ):
        for batch in _batches(origin, layout):
            columns = batch.columns
            if layout.named_rows:
                names = [(name or "").encode() for name in columns.pop(0).to_pylist()]
                ends.append(letters.count + np.cumsum([len(name) for name in names]))
                letters.append(np.frombuffer(b"".join(names), np.uint8))
            block = np.empty((batch.num_rows, d))
            for j, column in enumerate(columns):
                block[:, j] = column.to_numpy(zero_copy_only=False)  # missing numbers become NaN
            _check(origin, layout, row, block)
            X.append(block)
            row += len(block)
    return {"row_names": layout.named_rows, "column_names": layout.column_names}


def _check(origin: Origin, layout: Layout, row: int, block: np.ndarray) -> None:
    """Raise if a number is missing or infinite."""
    if np.isfinite(block).all():
        return
    i, j = np.argwhere(~np.isfinite(block))[0]
    what = "missing (empty, NA or NaN)" if np.isnan(block[i, j]) else "infinite"
    raise DataError(
        f"{origin.name}: {layout.place(row + i, j)} is {what}. Input X must hold finite numbers only: impute or drop "
        "such rows first."
    )


def _batches(origin: Origin, layout: Layout) -> Iterator[Any]:
    """Rows as pyarrow parses them."""
    try:
        import pyarrow
        from pyarrow import csv as arrow
    except ImportError:
        raise DataError(f'{origin.name} is read with pyarrow: pip install "vrpca[csv]".') from None
    names = [str(number) for number in range(layout.width)]
    types = dict.fromkeys(names, pyarrow.float64())
    if layout.named_rows:
        types[names[0]] = pyarrow.string()
    # With threads, pyarrow does not say in which line it has found an error.
    reading = arrow.ReadOptions(
        use_threads=False, column_names=names, skip_rows=layout.header_lines, block_size=layout.block
    )
    # In a table of one column an empty line is a missing number.
    parsing = arrow.ParseOptions(
        delimiter=layout.delimiter, newlines_in_values=True, ignore_empty_lines=layout.width > 1
    )
    numbers = arrow.ConvertOptions(column_types=types, null_values=list(MISSING), strings_can_be_null=False)
    with origin.opened() as file:
        try:
            yield from arrow.open_csv(file, reading, parsing, numbers)
        except pyarrow.ArrowInvalid as error:
            if "Empty CSV" not in str(error):  # that is a header without rows
                raise _parse_error(origin, layout, str(error)) from error


def _parse_error(origin: Origin, layout: Layout, message: str) -> DataError:
    """What pyarrow says, with the file, the place and the remedy."""
    if found := BAD_FIELD.search(message):
        column, line, reason = int(found[1]) - layout.named_rows, found[2], found[3].strip()
        where = f"line {line}, " if line else ""
        names = layout.column_names
        name = "the names of rows" if column < 0 else f"column {column if names is None else repr(names[column])}"
        remedy = "save the file as UTF-8" if "UTF8" in reason else "only numbers can be decomposed; drop or encode text"
        return DataError(f"{origin.name}: {where}{name}: {reason}: {remedy}.")
    if found := BAD_LINE.search(message):
        return DataError(
            f"{origin.name}: line {found[1]} has {found[3]} fields, but the others have {found[2]}: the file is "
            "cut, or a field with the delimiter in it is not quoted. Write it again."
        )
    return DataError(f"{origin.name} cannot be parsed: {' '.join(message.split())}. Write it again.")
