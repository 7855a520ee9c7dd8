"""Probabilistic PCA: the Gaussian distribution that a fitted `PCA` stands for.

Along the components its variances are the explained ones, in all other directions there is noise of one variance
(Tipping and Bishop, 1999). Directions of no variance at all have no density: they are left out, as a pseudo-inverse
leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from vrpca.data.source import ArraySum, Source
from vrpca.scores import ROWS, SPARSE_ROWS, scores


@dataclass(frozen=True)
class Gaussian:
    """``N(mean, S (V^T diag(variances - noise) V + noise I) S)``: the rows of V are axes, S are the columns' scales."""

    axes: np.ndarray  # V, k x d
    variances: np.ndarray  # along the axes, no smaller than the noise
    noise: float
    mean: np.ndarray
    scale: np.ndarray

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.axes.shape[1]

    @cached_property
    def present(self) -> np.ndarray:
        """Which axes have a variance, and not only rounding."""
        return self.variances > self.d * np.finfo(float).eps * self.variances.max(initial=0.0)

    def covariance(self) -> np.ndarray:
        """The covariance matrix, d x d."""
        V = self.axes * self.scale
        found = (V.T * (self.variances - self.noise)) @ V
        found[np.diag_indices(self.d)] += self.noise * self.scale**2
        return found

    def precision(self) -> np.ndarray:
        """Its inverse, by Woodbury's identity; the pseudo-inverse where there are directions without variance."""
        V, outside = self.axes[self.present] / self.scale, self._outside()
        found = (V.T * (1 / self.variances[self.present] - outside)) @ V
        found[np.diag_indices(self.d)] += outside / self.scale**2
        return found

    def _outside(self) -> float:
        """One over the noise; zero where there is none."""
        return 1 / self.noise if self.noise > 0 else 0.0

    def log_density(self, source: Source) -> np.ndarray:
        """The logarithm of the density at each row: k + 1 numbers per row are needed, found by one pass."""
        mean, scale, V = self.mean, self.scale, self.axes[self.present]
        lengths = SquaredLengths(source, mean, scale)
        along = scores(source, V, mean, scale, beside=lengths)
        variances, outside = self.variances[self.present], self._outside()
        rest = np.maximum(lengths.result() - (along**2).sum(axis=1), 0.0)
        distance = (along**2 / variances).sum(axis=1) + outside * rest
        others = self.d - len(V) if self.noise > 0 else 0
        logs = np.log(variances).sum() + (others * np.log(self.noise) if others else 0.0)
        dimension = len(V) + others
        return -0.5 * (distance + dimension * np.log(2 * np.pi) + logs) - np.log(scale).sum()


class SquaredLengths(ArraySum):
    """Accumulates ``|(x_i - mean) / scale|^2`` of every row, from rows or from columns, as the source is walked."""

    inputs = ("mean", "weight")
    sums, row_sums = (), ("out",)

    def __init__(self, source: Source, mean: np.ndarray, scale: np.ndarray):
        self.mean, self.weight, self.by_columns = mean, scale**-2.0, source.by_columns
        self.out = np.zeros(source.shape[0])

    def add(self, start: int, X: Any) -> None:
        """Take in a block, a few rows of it at a time."""
        rows = SPARSE_ROWS if sp.issparse(X) else ROWS
        for lo in range(0, X.shape[0], rows):
            part = X[lo : lo + rows]
            where = slice(start + lo, start + lo + part.shape[0])
            if self.by_columns:
                self.out += _squares(part.T, self.mean[where], self.weight[where])
            else:
                self.out[where] = _squares(part, self.mean, self.weight)


def _squares(X: Any, mean: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``sum_j weight_j (x_ij - mean_j)^2`` for every row; sparse ones stay sparse."""
    if not sp.issparse(X):
        return np.square(X - mean) @ weight
    X = X.astype(np.float64)
    return X.multiply(X) @ weight - 2 * (X @ (mean * weight)) + (mean**2 * weight).sum()
