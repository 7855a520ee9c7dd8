"""The optimum that answers are compared with: leading eigenpairs that other software has found, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

ROWS = 8192  # rows that are converted to double precision at a time, at most
NUMBERS = 2**22  # entries that are converted at a time, at most: 32 MB


@dataclass(frozen=True)
class Optimum:
    """The best answer, and how far another answer is from it, computed without cancellation."""

    values: np.ndarray  # the k largest eigenvalues of A
    vectors: np.ndarray  # their eigenvectors, d x k
    following: float  # the next eigenvalue
    form: Callable[[np.ndarray], float]  # ``E -> tr(E^T A E)``, in double precision

    @property
    def gap(self) -> float:
        """The gap between the last wanted eigenvalue and the next one."""
        return float(self.values[-1]) - self.following

    def suboptimality(self, W: np.ndarray) -> float:
        """``1 - tr(W^T A W) / (lambda_1 + ... + lambda_k)`` for the span of W's first k columns.

        V are the eigenvectors. ``E = W - V V^T W`` is the part of W outside their span, ``F = V - W W^T V`` their part
        outside the span of W. The numerator of the suboptimality is ``sum_i lambda_i |f_i|^2 - tr(E^T A E)``: two terms
        as small as the square of the angle.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.diag([3.0, 2.0, 1.0])
        >>> best = Optimum(np.array([3.0]), np.eye(3)[:, :1], 4 / 3, lambda E: float(np.sum((X @ E) ** 2)) / 3)
        >>> best.suboptimality(np.array([[1.0], [1e-8], [0.0]])) / (1e-16 * 5 / 9) - 1 < 1e-9
        True
        """
        Q = np.linalg.qr(W[:, : len(self.values)].astype(np.float64))[0]
        C = self.vectors.T @ Q
        E, F = Q - self.vectors @ C, self.vectors - Q @ C.T
        return (float(self.values @ (F**2).sum(axis=0)) - self.form(E)) / float(self.values.sum())


def row_blocks(X: Any) -> Iterator[Any]:
    """Blocks of rows in double precision."""
    rows = max(1, min(ROWS, NUMBERS // X.shape[1])) if X.ndim == 2 else NUMBERS
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows].astype(np.float64, copy=False)
