"""The true suboptimality of components, in extended precision.

LAPACK's singular vectors are right up to errors of 1e-16, relative to the largest singular value. Here they are only a
basis: Z is projected onto them in long double, and the eigenvalues of the small projected matrix are found by Jacobi's
method. Ritz values err by the square of the basis' error. And their sum never exceeds the true one, so that the
suboptimality found here is never larger than the true one: no certificate is accused wrongly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

Long = np.longdouble
EPS = float(np.finfo(Long).eps)
EXTENDED = EPS < 1e-18  # long double is no wider than double on some systems: there is no truth there
ERROR = 1e-17  # of a suboptimality: sums of some hundred products in long double; tests/test_fuzz.py measures 2e-18
NEAR = 1e-3  # singular values this close to the k-th, relatively, belong to the basis as well
WIDEST = 64  # most vectors of a basis, for the sake of time: among so many equal values LAPACK's choice is as good
MORE = 4  # vectors of the basis beyond the k-th, at least
CONSTANT = 10 * float(
    np.finfo(float).eps
)  # part of the mean: deviations below it are rounding, as for `vrpca.data.view`
SWEEPS = 30  # Jacobi's method converges quadratically: full matrices take less than 10
NEGLIGIBLE = EPS / 64  # Jacobi rotates away what is larger than this part of the largest diagonal entry


def prepared(X: Any, center: bool, scale: bool, weights: np.ndarray | None) -> np.ndarray:
    """Z in long double: the rows of X centred, divided by the columns' deviations, times the roots of their weights."""
    Z = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(Long)
    w = np.ones(len(Z), Long) if weights is None else np.asarray(weights).astype(Long)
    counts = w > 0
    constant = (Z[counts] == Z[counts][0]).all(axis=0)
    given = Z
    D = Z - _mean(Z, w)
    D -= _mean(D, w)  # the first mean was rounded
    D[:, constant] = 0
    if center:
        Z = D
    if scale:
        top = np.abs(D).max(axis=0)
        top[top == 0] = 1
        deviation = top * np.sqrt(_mean((D / top) ** 2, w))
        deviation[constant | (deviation <= CONSTANT * np.abs(_mean(given, w)))] = 1
        Z = Z / deviation
    return Z * np.sqrt(w)[:, None]


def _mean(Z: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (w[:, None] * Z).sum(axis=0) / w.sum()


class Truth:
    """What is true of a matrix Z, given in long double.

    Attributes
    ----------
    size : numpy.longdouble
        Largest entry of Z. Everything is computed for Z / size.
    total : numpy.longdouble
        ``|Z|_F^2`` over the square of `size`; 0 where Z is zero.
    """

    def __init__(self, Z: np.ndarray):
        self.size = np.abs(Z).max() or Long(1)
        self.Z = Z / self.size
        self.total = (self.Z**2).sum()
        _, self.s, Vt = np.linalg.svd(self.Z.astype(np.float64), full_matrices=False)
        self.V = Vt.T
        self._sums: dict[int, Any] = {}

    def largest(self, k: int) -> Any:
        """Sum of the k largest eigenvalues of ``Z^T Z / size^2``."""
        if k not in self._sums:
            close = int((self.s >= (1 - NEAR) * self.s[min(k, len(self.s)) - 1]).sum())
            width = min(max(k + MORE, min(close, WIDEST)), len(self.s))
            H = square(self.Z @ orthonormal(self.V[:, :width].astype(Long)))
            self._sums[k] = np.sort(eigenvalues(H))[::-1][:k].sum()
        return self._sums[k]

    def norms(self, components: np.ndarray) -> np.ndarray:
        """``|Z w| / size`` for each row w of the components."""
        return np.sqrt(((self.Z @ components.T.astype(Long)) ** 2).sum(axis=0))

    def suboptimality(self, components: np.ndarray) -> float:
        """``1 - tr(W^T A W) / (lambda_1 + ... + lambda_k)`` of the span of the components."""
        W = orthonormal(components.T.astype(Long))
        return float(1 - np.trace(square(self.Z @ W)) / self.largest(len(components)))


def square(Y: np.ndarray) -> np.ndarray:
    """``Y^T Y``, summed in about sqrt(n) parts, so that rounding counts sqrt(n) times and not n times."""
    parts = np.array_split(Y, max(1, int(np.sqrt(len(Y)))))
    return np.sum([part.T @ part for part in parts], axis=0)


def orthonormal(W: np.ndarray) -> np.ndarray:
    """Orthonormal columns with the span of W's, by Gram-Schmidt twice; a column that depends on others becomes zero."""
    W = W.copy()
    for j in range(W.shape[1]):
        before = np.sqrt(W[:, j] @ W[:, j])
        for _ in range(2):
            W[:, j] -= W[:, :j] @ (W[:, :j].T @ W[:, j])
        length = np.sqrt(W[:, j] @ W[:, j])
        W[:, j] *= 1 / length if length > 1e3 * EPS * before else 0  # less than that is rounding
    return W


def eigenvalues(H: np.ndarray) -> np.ndarray:
    """Eigenvalues of a symmetric matrix in long double, by Jacobi's cyclic method."""
    H = H.copy()
    least = NEGLIGIBLE * np.abs(np.diag(H)).max()
    for _ in range(SWEEPS):
        pairs = np.argwhere(np.triu(np.abs(H) > least, 1))
        if not len(pairs):
            break
        for p, q in pairs:
            if abs(H[p, q]) > least:
                _rotate(H, p, q)
    return np.diag(H)


def _rotate(H: np.ndarray, p: int, q: int) -> None:
    """Make H[p, q] zero by a rotation of the coordinates p and q."""
    a = (H[q, q] - H[p, p]) / (2 * H[p, q])
    t = (1 if a >= 0 else -1) / (abs(a) + np.sqrt(1 + a * a))
    c = 1 / np.sqrt(1 + t * t)
    R = np.array([[c, c * t], [-c * t, c]], Long)
    H[:, [p, q]] = H[:, [p, q]] @ R
    H[[p, q]] = R.T @ H[[p, q]]
    H[p, q] = H[q, p] = 0
