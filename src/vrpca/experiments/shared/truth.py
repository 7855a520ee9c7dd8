"""How good an answer is: its true suboptimality, by the data and an independent optimum, in double precision."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from vrpca.data.files.paths import written_whole
from vrpca.errors import DataError
from vrpca.experiments.shared.datasets import UNCENTRED, Prepared, load
from vrpca.experiments.shared.optimum import Optimum, row_blocks

AT_ONCE = 10  # eigenvalues that are computed at least: the next contest often asks for a larger k
SMALL_SIDE = 4000  # up to this size the whole Gram matrix goes to LAPACK, which takes some ten seconds
EXTRA = 10  # columns of a block of the Krylov space besides the wanted ones, the usual oversampling of randomized SVD
ROUNDING = 1e-14  # relative errors below this, some 50 eps, are rounding: another pass would not lower them


def optimum(X: Any, k: int) -> Optimum:
    """The optimum for data that are not to be centred, by LAPACK, ARPACK or block Krylov."""
    values, vectors = leading_eigenpairs(X, k + 1, False)
    return Optimum(values[:k], vectors[:, :k], float(values[k]), lambda E: _form(X, E))


def _form(X: Any, E: np.ndarray) -> float:
    return sum(float(np.sum((block @ E) ** 2)) for block in row_blocks(X)) / X.shape[0]


def explained(X: Any, W: np.ndarray, center: bool) -> float:
    """``tr(W^T A W)``, with the columns of W orthonormalised first."""
    Q = np.linalg.qr(np.asarray(W, dtype=np.float64))[0]
    shift = column_mean(X) @ Q if center else 0.0
    return sum(float(np.sum((block @ Q - shift) ** 2)) for block in row_blocks(X)) / X.shape[0]


def suboptimality(X: Any, W: np.ndarray, center: bool, eigenvalues: np.ndarray) -> float:
    """``1 - tr(W^T A W) / (lambda_1 + ... + lambda_k)`` for the k columns of W; negative only by rounding.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.diag([3.0, 2.0, 1.0])
    >>> suboptimality(X, np.eye(3)[:, [1]], False, leading_eigenvalues(X, 1, False)).__round__(12)
    0.555555555556
    """
    return 1 - explained(X, W, center) / float(eigenvalues[: W.shape[1]].sum())


def leading_eigenvalues(X: Any, k: int, center: bool) -> np.ndarray:
    """The k largest eigenvalues of A: by LAPACK on the Gram matrix of the smaller side, or by Krylov methods."""
    if min(X.shape) > SMALL_SIDE:
        return leading_eigenpairs(X, k, center)[0]
    side = min(X.shape)
    return scipy.linalg.eigvalsh(_gram(X, center), subset_by_index=(side - k, side - 1))[::-1] / X.shape[0]


def leading_eigenpairs(X: Any, k: int, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues of A and their eigenvectors as columns, by the same methods."""
    side, wide = min(X.shape), X.shape[1] > X.shape[0]
    if side <= SMALL_SIDE:
        values, vectors = scipy.linalg.eigh(_gram(X, center), subset_by_index=(side - k, side - 1))
    else:
        values, vectors = (_arpack if sp.issparse(X) else _block_krylov)(X, k, center)
    order = np.argsort(-values)
    vectors = vectors[:, order]
    if wide and side <= SMALL_SIDE:  # these are left singular vectors; multiplied by Z^T they are the right ones
        vectors = np.linalg.qr(_images(X, vectors, center))[0]
    return values[order] / X.shape[0], vectors


def _images(X: Any, U: np.ndarray, center: bool) -> np.ndarray:
    """``Z^T U``."""
    V, start = np.zeros((X.shape[1], U.shape[1])), 0
    for block in row_blocks(X):
        V += block.T @ U[start : start + block.shape[0]]
        start += block.shape[0]
    return V - np.outer(column_mean(X), U.sum(axis=0)) if center else V


def column_mean(X: Any) -> np.ndarray:
    """Means of the columns, summed in double precision."""
    total = sum(np.asarray(block.sum(axis=0)).ravel() for block in row_blocks(X))
    return np.asarray(total) / X.shape[0]


def _gram(X: Any, center: bool) -> np.ndarray:
    """``Z^T Z`` or, for a wide matrix, ``Z Z^T``."""
    n, d = X.shape
    mean = column_mean(X) if center else np.zeros(d)
    if d <= n and sp.issparse(X):
        return _dense(sum(block.T @ block for block in row_blocks(X))) - n * np.outer(mean, mean)
    if d <= n:
        return sum((block - mean).T @ (block - mean) for block in row_blocks(X))
    if not sp.issparse(X):
        Z = X.astype(np.float64) - mean
        return Z @ Z.T
    X = X.astype(np.float64)
    cross = np.asarray(X @ mean)
    return _dense(X @ X.T) - cross[:, None] - cross + mean @ mean


def _dense(G: Any) -> np.ndarray:
    return G.toarray() if sp.issparse(G) else np.asarray(G)


def _arpack(X: sp.csr_matrix, k: int, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """ARPACK on ``Z^T Z``, to machine precision, with centring left implicit."""
    d = X.shape[1]
    mean = column_mean(X) if center else np.zeros(d)
    X = X.astype(np.float64)

    def product(v: np.ndarray) -> np.ndarray:
        v = v.ravel()
        p = X @ v - mean @ v
        return X.T @ p - mean * p.sum()

    start = np.random.default_rng(0).standard_normal(d)
    width = min(*X.shape, max(4 * k, k + 40))
    return eigsh(LinearOperator((d, d), matvec=product, dtype=np.float64), k, ncv=width, tol=0, v0=start)


def _block_krylov(X: np.ndarray, k: int, center: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rayleigh-Ritz on a growing block Krylov space, to machine precision: the fewest passes over large data."""
    d = X.shape[1]
    mean = column_mean(X) if center else np.zeros(d)
    new = np.linalg.qr(np.random.default_rng(0).standard_normal((d, min(k + EXTRA, d))))[0]
    basis = images = np.empty((d, 0))
    while True:
        image = sum(((block - mean).T @ ((block - mean) @ new) for block in row_blocks(X)), np.zeros((d, 1)))
        basis, images = np.hstack([basis, new]), np.hstack([images, image])
        size = basis.shape[1]
        H = basis.T @ images
        values, Y = scipy.linalg.eigh((H + H.T) / 2, subset_by_index=(size - k, size - 1))
        vectors = basis @ Y
        residuals = np.linalg.norm(images @ Y - vectors * values, axis=0)
        residuals[residuals <= ROUNDING * values[-1]] = 0
        # Each eigenvalue lacks about r^2 / gap. The eigenvalue stands in for its gap, which is not known.
        missing = residuals**2 / np.maximum(np.maximum(values, residuals), np.finfo(float).tiny)
        if size == d or missing.sum() <= ROUNDING * values.sum():
            return values, vectors
        new = image[:, : d - size]
        for _ in range(2):
            new = np.linalg.qr(new - basis @ (basis.T @ new))[0]


def reference(data: Prepared, k: int, cache: Path, tell: Callable[[], None] = lambda: None) -> np.ndarray:
    """The k leading eigenvalues of a prepared set: from the cache, which goes by content, or computed and put there.

    `tell` is called before they are computed, which can take minutes.
    """
    center = data.center != UNCENTRED
    path = cache / "references" / f"{data.key}-{'centred' if center else 'uncentred'}.json"
    known = json.loads(path.read_text())["eigenvalues"] if path.exists() else []
    if len(known) < k:
        tell()
        known = [float(value) for value in _compute(data, min(max(k, AT_ONCE), *data.shape), center)]
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            temporary.write_text(json.dumps({"name": data.name, "shape": data.shape, "eigenvalues": known}))
    return np.array(known[:k])


def _compute(data: Prepared, k: int, center: bool) -> np.ndarray:
    X = load(data.path)
    numbers = X.data if sp.issparse(X) else X
    if not all(np.isfinite(part).all() for part in row_blocks(numbers)):
        raise DataError(f"{data.name} holds NaN or infinite numbers: repair the data first.")
    values = leading_eigenvalues(X, k, center)
    if not values.sum() > 0:
        raise DataError(f"{data.name} has no variance: there is nothing to find.")
    return values
