"""How far from optimal an answer can be: bounds from W, A W and what is known of A on W's complement; nothing else.

With ``R = A W - W Theta`` and C the restriction of A to the complement of W's span, let ``mu >= lambda_max(C)`` and
``delta = theta_k - mu``. If ``delta > 0``, the sum of A's k largest eigenvalues is at most the sum of the k largest
eigenvalues of ``Theta + R^T R / delta``. Without a gap, Ky Fan's inequality still bounds it by
``theta_1 + ... + theta_k + k max(0, mu - theta_k) + sigma_1(R) + ... + sigma_k(R)``. The smaller of the two counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

PIECE = 4096  # entries of the probe's vectors that are replaced at a time


@dataclass(frozen=True)
class Certificate:
    """A bound on an answer's suboptimality, and what it rests on.

    Attributes
    ----------
    suboptimality : float
        Bound on ``1 - tr(W^T A W) / (lambda_1 + ... + lambda_k)``.
    kind : str
        ``"exact"``: mu is known. ``"probabilistic"``: mu is bounded by a fresh random search, but for the failure
        probability asked for. ``"estimated"``: mu is estimated by the search that found the answer; small residuals
        alone never prove that nothing larger was missed.
    residuals : numpy.ndarray
        ``|A w_j - theta_j w_j| / theta_1`` for each component.
    angles : numpy.ndarray
        Bound on the sine of the angle between each component and its eigenvector; 1 where its gap allows none.
    mu : float
        The value used for the largest eigenvalue outside the answer, relative to ``theta_1``.
    """

    suboptimality: float
    kind: str
    residuals: np.ndarray = field(repr=False)
    angles: np.ndarray = field(repr=False)
    mu: float = 0.0


def certify(theta: np.ndarray, G: np.ndarray, k: int, d: int, mu: float, kind: str, eps: float) -> Certificate:
    """Bound the suboptimality of the k leading Ritz vectors.

    Parameters
    ----------
    theta : numpy.ndarray
        Ritz values, largest first; at least one.
    G : numpy.ndarray
        ``R^T R``.
    k : int
        Number of components that count.
    d : int
        Dimension of the space.
    mu : float
        (Estimate of) the largest eigenvalue outside the span of all Ritz vectors.
    kind : str
        How mu was found.
    eps : float
        Rounding unit of W and A W.
    """
    norms = np.sqrt(np.clip(np.diag(G), 0, None))[:k]
    top = theta[0]
    if len(theta) < k or not top > 0:
        return Certificate(np.inf, kind, norms / max(top, np.finfo(float).tiny), np.ones(len(norms)), np.inf)
    if len(theta) == d:  # W spans everything: only rounding can turn the leading vectors
        G, mu, kind = np.zeros_like(G), 0.0, "exact"
    best = min(_bound_with_gap(theta, G, k, mu), _bound_without_gap(theta, G, k, mu))
    value = theta[:k].sum()
    hidden = 0.0 if k == d else _rounding(theta, np.sqrt(np.clip(np.diag(G), 0, None))[:k], k, mu, eps)
    bound = max(0.0, float(1 - value / best)) + hidden + float(np.finfo(float).eps)
    return Certificate(bound, kind, norms / top, _angles(theta, norms, k, mu), float(mu / top))


def _bound_with_gap(theta: np.ndarray, G: np.ndarray, k: int, mu: float) -> float:
    delta = theta[k - 1] - mu
    if delta <= 0:
        return np.inf
    return float(np.linalg.eigvalsh(np.diag(theta) + G / delta)[::-1][:k].sum())


def _bound_without_gap(theta: np.ndarray, G: np.ndarray, k: int, mu: float) -> float:
    singular = np.sqrt(np.clip(np.linalg.eigvalsh(G)[::-1][:k], 0, None))
    return float(theta[:k].sum() + k * max(0.0, mu - theta[k - 1]) + singular.sum())


def _rounding(theta: np.ndarray, norms: np.ndarray, k: int, mu: float, eps: float) -> float:
    """What rounding can hide: an error E_j in A w_j adds to its residual, which turns w_j by that over its gap.

    The sizes were found over some thousand generated cases (`benchmarks/certificates.py`).
    """
    E = eps * np.maximum(8 * np.abs(theta[:k]), theta[0])
    gap = np.maximum(theta[:k] - np.append(theta, mu)[k], np.finfo(float).tiny)
    return float((E * np.minimum(1.0, 2 * (norms + E) / gap)).sum() / theta[:k].sum())


def _angles(theta: np.ndarray, norms: np.ndarray, k: int, mu: float) -> np.ndarray:
    """Sine of the angle to the eigenvector, at most |r_j| over the distance to the rest of the spectrum."""
    below = np.append(theta, mu)[1 : k + 1]
    above = np.append(np.inf, theta)[:k]
    gap = np.minimum(theta[:k] - below, above - theta[:k]) - norms
    return np.minimum(1.0, np.divide(norms, gap, out=np.ones(k), where=gap > 0))


class Probe:
    """Estimates the largest eigenvalue of A on the complement of W, one extra column per reading.

    A locally optimal conjugate gradient iteration (Knyazev 2001) on one vector from a random start: the span S of the
    current vector, the last direction and the residual is searched, and only the residual needs a product with A.
    Vectors are rows here, S above A S, replaced in place; those that are not there yet are zero. W is taken out of them
    by way of small matrices, in the precision of the data: an estimate needs no more.
    """

    def __init__(self, d: int, dtype: np.dtype, rng: np.random.Generator):
        self.pairs = np.zeros((6, d), dtype)  # vector, direction, residual; their images
        rng.standard_normal(out=self.column, dtype=dtype)
        self.column[:] /= np.linalg.norm(self.column)
        self.value = 0.0
        self.residual = np.inf
        self.looks = 0

    @property
    def column(self) -> np.ndarray:
        """What is to be multiplied by A next."""
        return self.pairs[2]

    def update(self, image: np.ndarray, W: np.ndarray, U: np.ndarray, theta: np.ndarray) -> None:
        """Take in ``image = A column`` and the current W, U = A W; choose the next column."""
        self.looks += 1
        self.pairs[5] = image
        S = self.pairs[:3]
        G = np.array([[float(s @ b) for b in self.pairs] for s in S])
        C, D = (S @ W).astype(float), (S @ U).astype(float)  # S' = S - C W^T, A S' = A S - C U^T
        M = G[:, :3] - C @ C.T
        H = G[:, 3:] - C @ D.T - D @ C.T + (C * theta) @ C.T
        eps = float(np.finfo(W.dtype).eps)
        T, values = _leading_pairs(M, H, eps)
        if T is None:  # nothing is left outside W
            self.value = self.residual = 0.0
            self.pairs[[0, 1, 3, 4]] = 0
            return
        self.value = float(values[0])
        if self.value > 2 * max(0.0, 1 - float(theta.sum())) + eps:  # tr A = 1: the images have drifted
            self._multiply_again()
            return
        self._combine(C, D, W, U, theta, _kept(T[:, 0], M, eps))

    def _multiply_again(self) -> None:
        """Begin again with the vector's own product: images that are combined again and again lose what they are."""
        self.column[:] = self.pairs[0]
        self.pairs[[0, 1, 3, 4]] = 0
        self.value, self.residual, self.looks = 0.0, np.inf, 0

    def _combine(
        self, C: np.ndarray, D: np.ndarray, W: np.ndarray, U: np.ndarray, theta: np.ndarray, Y: np.ndarray
    ) -> None:
        """New vectors ``Y S'``, their images, and the residual of the first one: piece by piece, within the cache."""
        y, c = Y[0], Y[0] @ C
        of_pairs, of_W, of_U = np.zeros((5, 6)), np.zeros((5, len(theta))), np.zeros((5, len(theta)))
        of_pairs[:2, :3] = of_pairs[3:, 3:] = Y
        of_W[:2] = of_U[3:] = -Y @ C
        of_pairs[2] = np.append(-self.value * y, y)
        of_W[2] = self.value * c - (y @ D - c * theta)  # the image's part in W's span goes, too
        of_U[2] = -c
        of_pairs, of_W, of_U = (M.astype(W.dtype) for M in (of_pairs, of_W, of_U))
        for j in range(0, len(W), PIECE):
            piece = self.pairs[:, j : j + PIECE]
            new = of_pairs @ piece
            new += _times_tall(of_W, W[j : j + PIECE])
            new += _times_tall(of_U, U[j : j + PIECE])
            piece[:5] = new
        self.residual = float(np.linalg.norm(self.column))
        if self.residual > 0:
            self.column[:] /= self.column.dtype.type(self.residual)

    def bound(self, theta: np.ndarray) -> float:
        """Estimate of lambda_max outside W."""
        return estimate_outside(self.value, self.residual, self.looks, theta)


def estimate_outside(value: float, residual: float, looks: int, theta: np.ndarray, share: float = 1.0) -> float:
    """Estimate of lambda_max outside W: Ritz value plus residual, never above the trace that W leaves (tr A = 1).

    The first looks from a random start say little: until there are three, only the trace counts, and a young
    residual counts more than once; the more so where a look follows only a share of the vectors.
    """
    left = max(0.0, 1.0 - float(theta.sum()))
    young = looks < 3 or looks * share < 1
    return left if young else min(value + residual * (1 + 3 / (looks * share)), left)


def _leading_pairs(M: np.ndarray, H: np.ndarray, eps: float) -> tuple[np.ndarray | None, np.ndarray]:
    """Ritz vectors (as coefficients) and values, largest first, for Gram matrix M and projected operator H.

    The vectors had length 1 before W was taken out of them: those that rounding could have left, and those that the
    others span, are left out.
    """
    square = np.diag(M)
    keep = square > 100 * eps
    if not keep.any():
        return None, np.zeros(0)
    inverse = np.where(keep, 1 / np.sqrt(np.where(keep, square, 1.0)), 0.0)
    w, Q = np.linalg.eigh(M * np.outer(inverse, inverse))
    good = w > max(1e-6, 100 * eps)
    T = inverse[:, None] * Q[:, good] / np.sqrt(w[good])
    values, Y = np.linalg.eigh(T.T @ (H + H.T) @ T / 2)
    return T @ Y[:, ::-1], values[::-1]


def _times_tall(L: np.ndarray, W: np.ndarray) -> np.ndarray:
    """``L W^T``; BLAS is slow at outer products of long vectors."""
    return np.outer(L, W) if W.shape[1] == 1 else L @ W.T


def _kept(y: np.ndarray, M: np.ndarray, eps: float) -> np.ndarray:
    """Coefficients of the new vector and, at length 1, of the direction it was reached by (all but the old vector).

    A direction that is nothing but rounding is none.
    """
    step = np.append(0.0, y[1:])
    square = step @ M @ step
    there = square > 100 * eps * (step**2 @ np.diag(M))
    return np.vstack([y, step / np.sqrt(square) if there else np.zeros_like(step)])
