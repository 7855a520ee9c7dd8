"""Mean and variance of every column in one reading: weighted, shifted, and safe from overflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from vrpca import kernels
from vrpca.data.source import Source, pieces
from vrpca.errors import DataError

if TYPE_CHECKING:
    from vrpca.data.view import View

SAFE = 1e60  # entries up to here can be squared and summed as they are


class Witness(Protocol):
    """What sees the rows while the moments are read: in order, or in random order where it has an `rng`."""

    rng: np.random.Generator | None
    least: int  # rows that it likes to see at a time
    rows_read: int  # that were read for it before

    def see(self, X: Any, weight: np.ndarray | None, mean: np.ndarray) -> None:
        """Take in rows of X; `mean` is that of all rows so far, these included."""
        ...

    def tell(self, view: View, moments: Moments, kept: np.ndarray | None) -> np.ndarray | None:
        """Let the view of the columns that are kept know what was seen; return a start, if that is what it is."""
        ...


@dataclass(frozen=True)
class Moments:
    """Column moments of a source; `factor` times the data has this mean and this mean squared deviation.

    `readings` of the data were needed to find them. Moments about zero have a mean of zeros.
    """

    total: float
    mean: np.ndarray
    variance: np.ndarray
    factor: float
    readings: int = 1

    @property
    def center(self) -> np.ndarray:
        """The mean of the data themselves."""
        return self.mean if self.factor == 1 else self.mean / self.factor

    @property
    def second(self) -> np.ndarray:
        """Mean square about zero, of `factor` times the data."""
        return self.variance + self.mean**2


def column_moments(
    source: Source,
    weights: np.ndarray | None,
    n_threads: int,
    witness: Witness | None = None,
    *,
    about_zero: bool = False,
) -> Moments:
    """Read the source once; raise if an entry is not finite.

    Entries beyond 1e60 or below 1e-60 are scaled by a power of two so that their squares neither overflow nor vanish.
    A witness sees the rows while they are read. Where nobody asks for the mean, moments about zero take less time.
    """
    look = _squares if about_zero else kernels.moments
    found = _accumulate(source, weights, n_threads, look, None, witness)
    with np.errstate(over="ignore", invalid="ignore"):
        trace = found.second.sum()
    if not np.isfinite(trace) or trace < SAFE**-2:  # not finite, overflown or vanished: look closer, and again
        largest = _largest_entry(source)
        found = replace(_accumulate(source, weights, n_threads, look, _power_of_two(largest), None), readings=3)
    return found


def _accumulate(
    source: Source,
    weights: np.ndarray | None,
    n_threads: int,
    look: Callable[..., tuple[float, np.ndarray, np.ndarray]],
    factor: float | None,
    witness: Witness | None,
) -> Moments:
    d = source.shape[1]
    total, mean, M2 = 0.0, np.zeros(d), np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        for start, X in _blocks(source, witness):
            if factor is None:
                factor = _first_factor(X)
            weight = None if weights is None else weights[start : start + X.shape[0]]
            w, block_mean, block_M2 = look(kernels.make_rows(X), weight, factor, n_threads)
            if w > 0:  # Chan, Golub and LeVeque's update
                delta = block_mean - mean
                mean += delta * (w / (total + w))
                M2 += block_M2 + delta**2 * (total * (w / (total + w)))
                total += w
                if witness is not None:
                    witness.see(X, weight, mean / factor)
            elif not np.isfinite(block_M2).all():
                M2 += block_M2
    return Moments(total, mean, M2 / total, 1.0 if factor is None else factor)


def _squares(
    rows: Any, weight: np.ndarray | None, factor: float, n_threads: int
) -> tuple[float, np.ndarray, np.ndarray]:
    total, squares = kernels.squares(rows, weight, factor, n_threads)
    return total, np.zeros(len(squares)), squares


def _blocks(source: Source, witness: Witness | None) -> Iterator[tuple[int, Any]]:
    """The blocks in order; for a witness in pieces, which it sees while they are in the cache, in random order."""
    if witness is None:
        yield from source.blocks()
        return
    for start, X in source.blocks(witness.rng):
        for lo, piece in pieces(X, witness.rng, witness.least):
            yield start + lo, piece


def first_unit(X: Any) -> float:
    """A power of two that brings the first entries of a block to about 1."""
    values = X.data if sp.issparse(X) else X
    head = np.asarray(values).reshape(-1)[:65536]
    return _power_of_two(float(np.max(np.abs(head), initial=0.0)))


def _first_factor(X: Any) -> float:
    unit = first_unit(X)
    return 1.0 if 1 / SAFE < unit < SAFE else unit


def _power_of_two(largest: float) -> float:
    if largest == 0 or not np.isfinite(largest):
        return 1.0
    return float(np.ldexp(1.0, int(np.clip(-np.round(np.log2(largest)), -1000, 1000))))


def _largest_entry(source: Source) -> float:
    """The largest absolute entry; raises with its place where one is not finite."""
    largest = 0.0
    for start, X in source.blocks():
        values = X.data if sp.issparse(X) else X
        if not np.isfinite(values).all():
            bad = np.argwhere(~np.isfinite(values))[0]
            row, column = _place(X, bad)
            what = "NaN" if np.isnan(values[tuple(bad)]) else "infinity"
            raise DataError(
                f"Input X contains {what} (row {start + row}, column {column}); it must hold finite numbers only. "
                "Impute or drop such rows first (for NaN: sklearn.impute.SimpleImputer)."
            )
        largest = max(largest, float(np.max(np.abs(values), initial=0.0)))
    return largest


def _place(X: Any, bad: np.ndarray) -> tuple[int, int]:
    if sp.issparse(X):
        entry = int(bad[0])
        return int(np.searchsorted(np.asarray(X.indptr), entry, side="right")) - 1, int(X.indices[entry])
    return int(bad[0]), int(bad[1])
