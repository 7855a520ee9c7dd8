"""Scores of some rows, drawn at random where there are too many to show, and the groups that colour them."""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrpca.data.files.paths import as_path, damage_reported
from vrpca.data.genotypes import as_fitted
from vrpca.data.open import as_source
from vrpca.data.source import Source
from vrpca.errors import DataError, OptionError
from vrpca.estimators import check_columns
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


def read_colour(given: str) -> Colour:
    """A colour from ``FILE:COLUMN``: a .csv or .tsv file and the name of one of its columns."""
    file, colon, column = given.rpartition(":")
    if not (colon and file and column):
        raise OptionError(f"--color {given} must be FILE:COLUMN, such as labels.csv:species.")
    path = as_path(file)
    with damage_reported(path, "cannot be read as a table", "Write it as .csv with a line of names"):
        values = list(_column(path, column))
    return colour_of(values, column)


def _column(path: Path, column: str) -> Iterator[str]:
    """The entries of one column of a text file."""
    try:
        file = path.open(newline="", encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"There is no file {path}: check the name of --color and the folder.") from None
    with file:
        lines = csv.reader(file, delimiter="\t" if os.path.splitext(path)[1].lower() == ".tsv" else ",")
        header = next(lines, [])
        if column not in header:
            few = ", ".join(header[:GROUPS]) + (", ..." if len(header) > GROUPS else "")
            raise OptionError(f"{path} has no column {column!r}: name one of its columns ({few}).")
        at = header.index(column)
        for line in lines:
            if len(line) <= at:
                raise DataError(f"{path} has too few entries in line {lines.line_num}: {len(line)}, not {len(header)}.")
            yield line[at]
