"""The paper's synthetic data: X = U D V^T with a prescribed spectrum, made by fast transforms, in blocks of rows.

V is a random orthogonal matrix that is never formed. U is a stack of such matrices, scaled so that its columns have
length 1. Every block of rows is therefore one transform of ``D V^T``, whatever the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.fft import dct, idct

from vrpca.errors import DataError, OptionError
from vrpca.experiments.shared.optimum import Optimum, row_blocks

LEADING = np.r_[0, 1, 1.1, 1.2, 1.3, 1.4]  # the leading singular values are 1 minus these times the gap
STRIP = 500  # columns that are transformed at a time: 40 MB where a block has 10000 rows, the paper's d
TOLERANCE = 16  # errors that the check allows, in eps; a good matrix has a few, from its conversion to the final type


class Rotation:
    """A random orthogonal matrix that is applied in O(size log size): a shuffle, then twice random signs and a DCT.

    After one round all entries would be of about the same size. After two they are distributed like Gaussians, as
    those of a random rotation are.

    Examples
    --------
    >>> import numpy as np
    >>> turn, Y = Rotation(5, np.random.default_rng(0)), np.arange(10.0).reshape(5, 2)
    >>> bool(np.allclose(turn.back(turn(Y)), Y) and np.allclose(np.linalg.norm(turn(Y)), np.linalg.norm(Y)))
    True
    """

    def __init__(self, size: int, rng: np.random.Generator):
        self.size = size
        self.order = rng.permutation(size)
        self.signs = rng.choice([-1.0, 1.0], (2, size, 1))

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """The rotated columns of Y."""
        Y = Y[self.order]
        for signs in self.signs:
            Y = dct(signs * Y, axis=0, norm="ortho", overwrite_x=True)
        return Y

    def back(self, Y: np.ndarray) -> np.ndarray:
        """The columns of Y, rotated back."""
        for signs in self.signs[::-1]:
            Y = signs * idct(Y, axis=0, norm="ortho")
        out = np.empty_like(Y)
        out[self.order] = Y
        return out


@dataclass(frozen=True)
class PaperMatrix:
    """The matrix of section 3: singular values 1, 1 - l, 1 - 1.1 l, ..., 1 - 1.4 l, then |g_i| / d."""

    n: int  # rows, at least d
    d: int  # features
    gap: float  # the paper's lambda, l above: the gap between the two largest singular values
    seed: int = 0  # the same seed gives the same matrix
    heavy: int = 0  # heavy rows, at least d, with one half of the sum of squares; 0 for rows of equal weight

    def __post_init__(self) -> None:
        if not self.n >= self.d > len(LEADING):
            raise OptionError(
                f"n = {self.n}, d = {self.d}: there must be more than {len(LEADING)} columns, and n >= d."
            )
        if self.heavy and not self.d <= self.heavy <= self.n - self.d:
            raise OptionError(f"heavy = {self.heavy} must leave at least d = {self.d} rows on either side.")
        if not 0 < self.gap <= 0.5:
            raise OptionError(f"lambda = {self.gap:g} must lie in (0, 0.5].")

    @cached_property
    def spectrum(self) -> np.ndarray:
        """The singular values; only the leading ones are sorted."""
        tail = np.abs(self._rng(0).standard_normal(self.d - len(LEADING))) / self.d
        return np.r_[1 - self.gap * LEADING, tail]

    @cached_property
    def right(self) -> Rotation:
        """V: its columns are the rotated unit vectors."""
        return Rotation(self.d, self._rng(1))

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose])

    def blocks(self, dtype: Any) -> Iterator[np.ndarray]:
        """Blocks of rows; each has at least d rows."""
        factor = self._spectrum_times_right()
        for number, (height, weight) in enumerate(self._heights()):
            yield np.sqrt(weight).astype(dtype) * self._block(Rotation(height, self._rng(2, number)), factor, dtype)

    def _heights(self) -> Iterator[tuple[int, float]]:
        """For each block: its number of rows, and its part of the sum of squares."""
        if self.heavy:
            yield self.heavy, 0.5
        rest = self.n - self.heavy
        unit, left = (0.5 if self.heavy else 1.0) / rest, rest
        while left:
            height = self.d if left >= 2 * self.d else left
            yield height, unit * height
            left -= height

    def _spectrum_times_right(self) -> np.ndarray:
        """``D V^T``."""
        factor = np.empty((self.d, self.d))
        for strip in _strips(self.d):
            unit = np.zeros((self.d, strip.stop - strip.start))
            unit[np.arange(strip.start, strip.stop), np.arange(unit.shape[1])] = 1
            factor[:, strip] = self.spectrum[:, None] * self.right.back(unit)
        return factor

    def _block(self, left: Rotation, factor: np.ndarray, dtype: Any) -> np.ndarray:
        block = np.empty((left.size, self.d), dtype)
        padding = ((0, left.size - self.d), (0, 0))
        for strip in _strips(self.d):
            block[:, strip] = left(np.pad(factor[:, strip], padding))
        return block

    def optimum(self, k: int = 1) -> Optimum:
        """The leading eigenpairs of ``A = X^T X / n``, and its quadratic form. Both are known without reading X."""
        if not k < len(LEADING):
            raise OptionError(f"k = {k} must be below {len(LEADING)}.")
        values = self.spectrum**2 / self.n
        unit = np.eye(self.d, k)
        return Optimum(values[:k], self.right(unit), float(values[k]), self._form)

    def _form(self, E: np.ndarray) -> float:
        return float((self.spectrum**2) @ (self.right.back(E) ** 2).sum(axis=1) / self.n)

    def check(self, X: np.ndarray) -> SpectrumCheck:
        """Check by one pass that X has the wanted spectrum, and raise where it does not.

        The leading right singular vectors are multiplied by X^T X, and the squares of all entries are summed. That sum
        minus the leading eigenvalues is an upper bound on all other eigenvalues.
        """
        count = len(LEADING)
        V = self.right(np.eye(self.d, count))
        image, total = np.zeros_like(V), 0.0
        for block in row_blocks(X):
            image += block.T @ (block @ V)
            total += float(np.einsum("ij,ij", block, block))
        squares = self.spectrum**2
        found = SpectrumCheck(
            residual=float(np.linalg.norm(image - V * squares[:count], axis=0).max()),
            excess=abs(total - float(squares.sum())) / float(squares.sum()),
            rest=total - float(np.einsum("ij,ij", V, image)),
        )
        rounding = TOLERANCE * float(np.finfo(X.dtype).eps)
        if found.residual > rounding or found.excess > rounding or not found.rest < squares[count - 1]:
            raise DataError(f"The matrix for lambda = {self.gap:g} does not have the spectrum it should have: {found}.")
        return found


@dataclass(frozen=True)
class SpectrumCheck:
    """How far a matrix is from its spectrum."""

    residual: float  # largest residual of a leading pair
    excess: float  # relative error of the sum of squares
    rest: float  # sum of the squares of all singular values but the leading ones


def _strips(d: int) -> Iterator[slice]:
    return (slice(start, min(start + STRIP, d)) for start in range(0, d, STRIP))
