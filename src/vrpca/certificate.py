"""Bounds on how far from optimal an answer can be, from W, A W and what is known of A on W's complement.

With ``R = A W - W Theta`` and C the restriction of A to the complement of W's span, let ``mu >= lambda_max(C)`` and
``delta = theta_k - mu``. If ``delta > 0``, the sum of A's k largest eigenvalues is at most the sum of the k largest
eigenvalues of ``Theta + R^T R / delta``. Without a gap, Ky Fan's inequality still bounds it by
``theta_1 + ... + theta_k + k max(0, mu - theta_k) + sigma_1(R) + ... + sigma_k(R)``. The smaller of the two counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


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
        The largest eigenvalue outside the span of all Ritz vectors, or an estimate of it.
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
    """What rounding can hide. An error E_j in A w_j adds to the residual of w_j, and turns w_j by E_j over its gap.

    The factors 8 and 2 were found over some thousand generated cases (`benchmarks/certificates.py`).
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
