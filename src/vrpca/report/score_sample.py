"""Scores of some rows, drawn at random where there are too many to show, and the groups that colour them."""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.paths import as_path, damage_reported
from vrpca.data.open import as_source
from vrpca.data.source import Source
from vrpca.errors import DataError, OptionError
from vrpca.estimators import check_columns
from vrpca.genotypes import as_fitted
from vrpca.options import is_integer, shown
from vrpca.report.excerpts import Rows
from vrpca.report.subject import Subject
from vrpca.scores import ScoreColumns, ScoreRows

ROWS = 2000  # points that a page shows by default: a browser draws that many SVG nodes at once, and a map is full
GROUPS = 10  # colours that can be told apart, and that a figure has; one of them is for all smaller groups
OTHER = "other"


@dataclass(frozen=True)
class Colour:
    """What colours the points: a number, or the name of a group, for every row of the data."""

    name: str
    values: Sequence[Any]  # of all rows
    numeric: bool


@dataclass(frozen=True)
class ScoreSample:
    """Scores of the rows that are shown."""

    scores: np.ndarray  # one row for each number
    numbers: np.ndarray
    n: int  # rows of the data
    row_names: Sequence[str] | None
    colour: Colour | None
    merged: int  # groups that became "other"

    @property
    def thinned(self) -> bool:
        """Whether there are rows that are not shown."""
        return len(self.numbers) < self.n

    def rows(self, x: int, y: int) -> Rows:
        """One row per point, for two components that count from 0."""
        labels = [f"row {i}" if self.row_names is None else str(self.row_names[i]) for i in self.numbers.tolist()]
        points: Rows = [
            {"row": label, "x": float(point[x]), "y": float(point[y])}
            for label, point in zip(labels, self.scores, strict=True)
        ]
        if self.colour is not None:
            for point, value in zip(points, self.colour.values, strict=True):
                point["group"] = value
        return points


def score_sample(subject: Subject, X: Any, rows: int, seed: int, colour: Colour | None) -> ScoreSample:
    """The scores of at most `rows` rows of X; which ones depends on the seed alone."""
    if not is_integer(rows) or rows < 1:
        raise OptionError(f"rows={shown(rows)} must be a positive integer: it is the number of points shown.")
    source = as_source(X)
    if subject.parameters:
        check_columns(subject.model, X, source)
        source = as_fitted(subject.model, source)
    n = source.shape[0]
    if colour is not None and len(colour.values) != n:
        raise DataError(
            f"{colour.name} has {len(colour.values)} values, but the data have {n} rows: one each is needed."
        )
    numbers = np.arange(n) if rows >= n else np.sort(np.random.default_rng(seed).choice(n, rows, replace=False))
    found = _scores_of(source, numbers, subject)
    colour, merged = (None, 0) if colour is None else _of_rows(colour, numbers)
    return ScoreSample(found, numbers, n, source.row_names, colour, merged)


def _scores_of(source: Source, numbers: np.ndarray, subject: Subject) -> np.ndarray:
    """The scores of the rows with these numbers, by one pass."""
    if source.shape[1] != subject.components.shape[1]:
        raise DataError(f"X has {source.shape[1]} features, but the model was fitted on {subject.components.shape[1]}.")
    components = subject.components if subject.scale is None else subject.components / subject.scale
    out = np.zeros((len(numbers), len(components)), np.result_type(source.dtype, components.dtype))
    if source.by_columns:
        source.transposed().reduce(_ChosenColumns(numbers, ScoreColumns(components.T, subject.mean, out))).result()
    else:
        source.reduce(_ChosenRows(numbers, ScoreRows(components.T, subject.mean, out))).result()
    return out if subject.whitening is None else out * subject.whitening


class _ChosenRows:
    """Accumulates scores of the rows with some sorted numbers."""

    def __init__(self, numbers: np.ndarray, scores: Any):
        self.numbers, self.scores = numbers, scores

    def add(self, start: int, X: Any) -> None:
        """Take in those rows of a block."""
        first, last = np.searchsorted(self.numbers, [start, start + X.shape[0]])
        if last > first:
            self.scores.add(int(first), X[self.numbers[first:last] - start])

    def merge(self, other: _ChosenRows) -> None:
        """Take in what another accumulator has seen."""
        self.scores.merge(other.scores)

    def result(self) -> np.ndarray:
        """The scores."""
        return self.scores.result()


class _ChosenColumns(_ChosenRows):
    """The same where a block has columns of the data as its rows."""

    def add(self, start: int, X: Any) -> None:
        """Take in a block, of which only some columns count."""
        self.scores.add(start, X[:, self.numbers])


def _of_rows(colour: Colour, numbers: np.ndarray) -> tuple[Colour, int]:
    """The colour of the rows that are shown, with the smallest groups put together; how many groups that were."""
    values = [colour.values[i] for i in numbers.tolist()]
    if colour.numeric:
        return Colour(colour.name, values, True), 0
    sizes = Counter(values)
    if len(sizes) <= GROUPS:
        return Colour(colour.name, values, False), 0
    kept = {name for name, _ in sizes.most_common(GROUPS - 1)}
    merged = [name if name in kept else OTHER for name in values]
    return Colour(colour.name, merged, False), len(sizes) - len(kept)


def colour_of(values: Any, name: str) -> Colour:
    """A colour from one value per row: numbers if all of them are, and if they are too many for groups."""
    listed = np.asarray(values).ravel().tolist()
    numbers = [_number(value) for value in listed]
    if all(number is not None for number in numbers) and len(set(numbers)) > GROUPS:
        return Colour(
            name, [number if math.isfinite(number) else None for number in numbers if number is not None], True
        )
    return Colour(name, [str(value) for value in listed], False)


def _number(value: Any) -> float | None:
    """The number that a value is or that a text states; None if there is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class ColourFile:
    """A text file with a column that colours the points."""

    path: Path
    header: list[str]
    lines: list[list[str]]
    column: str

    def colour(self, rows: Sequence[str] | None = None) -> Colour:
        """The colour of rows that have these names, if they have any.

        Where the file has such names in its first column, they say which line belongs to which row; else the lines are
        in the order of the rows.
        """
        at, lines = self.header.index(self.column), self.lines
        if rows is not None and at > 0:
            lines = _in_order(self.path, self.header[0], lines, list(rows))
        return colour_of([line[at] for line in lines], self.column)


def read_colour(given: str) -> ColourFile:
    """What ``FILE:COLUMN`` names: a .csv or .tsv file and one of its columns."""
    file, colon, column = given.rpartition(":")
    if not (colon and file and column):
        raise OptionError(f"--color {given} must be FILE:COLUMN, such as labels.csv:species.")
    path = as_path(file)
    with damage_reported(path, "cannot be read as a table", "Write it as .csv with a line of names"):
        header, lines = _table(path)
    if column not in header:
        few = ", ".join([name for name in header if name][:GROUPS]) + (", ..." if len(header) > GROUPS else "")
        raise OptionError(f"{path} has no column {column!r}: name one of its columns ({few}).")
    return ColourFile(path, header, lines, column)


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The names of a text file's columns, and its lines. A column of names for the lines may have no name itself."""
    try:
        file = path.open(newline="", encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"There is no file {path}: check the name of --color and the folder.") from None
    with file:
        reader = csv.reader(file, delimiter="\t" if os.path.splitext(path)[1].lower() == ".tsv" else ",")
        header, lines = next(reader, []), list[list[str]]()
        for line in reader:
            if not lines and len(line) == len(header) + 1 and line[-1]:  # as R writes it; no comma at the end of a line
                header = ["", *header]
            if len(line) < len(header):
                few = f"{len(line)}, not {len(header)}"
                raise DataError(f"{path} has too few entries in line {reader.line_num}: {few}.")
            lines.append(line)
    return header, lines


def _in_order(path: Path, title: str, lines: list[list[str]], rows: list[str]) -> list[list[str]]:
    """The lines in the order of the rows, if the first column has the names of the rows; else as they are.

    A first column has names if it has no title, or if its entries are texts that all differ.
    """
    names = [line[0] for line in lines]
    distinct = len(set(names)) == len(names)
    if names == rows:
        return lines
    if distinct and sorted(names) == sorted(rows):
        line_of = dict(zip(names, lines, strict=True))
        return [line_of[name] for name in rows]
    if (
        not title.strip()
        or set(names) == set(rows)
        or (distinct and names and all(_number(name) is None for name in names))
    ):
        odd = sorted(set(rows) ^ set(names))
        why = f"{odd[0]!r} is in one of them only" if odd else "some occur more than once"
        raise DataError(
            f"{path} names its lines in its first column, but not as the data name their rows: {why}. Give both the "
            "same names, or leave that column out to take the lines in order."
        )
    return lines
