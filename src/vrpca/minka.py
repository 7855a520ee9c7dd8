"""The number of components by Minka's formula: the most likely dimension of data in Gaussian noise.

T. P. Minka, "Automatic choice of dimensionality for PCA", NIPS 2000, equations (30), (31) and (77) to (80).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from vrpca.typing import Array


def most_likely_dimension(spectrum: Array, n: float, rounding: float) -> int:
    """The number of components with the largest evidence.

    Parameters
    ----------
    spectrum : array of shape (d,)
        All eigenvalues of the covariance matrix, largest first, in any unit.
    n : float
        Number of rows, or the sum of their weights.
    rounding : float
        Rounding of the eigenvalues, relative to the largest. Smaller ones are taken for zero.

    Returns
    -------
    int
        At least 1 and, where there is more than one column, less than their number.

    Examples
    --------
    >>> most_likely_dimension(np.array([9.0, 4.0, 1.0, 0.99, 0.98]), 500, 1e-15)
    2
    """
    if len(spectrum) == 1:
        return 1
    least = max(len(spectrum) * rounding, float(np.finfo(float).tiny))
    return int(np.argmax(log_evidence(np.asarray(spectrum, float) / spectrum[0], n, least))) + 1


def log_evidence(spectrum: Array, n: float, least: float) -> Array:
    """The logarithm of the evidence for 1, 2, ... d - 1 components, by Laplace's method (equation 30).

    `spectrum` is relative to its largest entry, and what is below `least` is taken for zero: more components than
    there are nonzero eigenvalues have no evidence. Equal eigenvalues differ by rounding, as far as anybody can tell.
    """
    d = len(spectrum)
    k = np.arange(1, d)
    there = np.maximum(spectrum, least)
    logs = np.cumsum(np.log(there))[:-1]
    noise = np.maximum((there.sum() - np.cumsum(there)[:-1]) / (d - k), least)
    free = d * k - k * (k + 1) / 2  # dimension of the manifold of frames
    volume = -k * np.log(2) + np.cumsum(gammaln((d - k + 1) / 2) - np.log(np.pi) * (d - k + 1) / 2)
    likelihood = -n / 2 * (logs + (d - k) * np.log(noise))
    curvature = _log_hessian(there, noise, least) + free * np.log(n)
    evidence = volume + likelihood + np.log(2 * np.pi) * (free + k) / 2 - curvature / 2 - k * np.log(n) / 2
    return np.where(spectrum[:-1] < least, -np.inf, evidence)


def _log_hessian(spectrum: Array, noise: Array, least: float) -> Array:
    """``sum over i <= k, j > i of log (1/m_j - 1/m_i)(l_i - l_j)``, where m_j is the noise for j > k (equation 80)."""
    d = len(spectrum)
    k = np.arange(1, d)
    gaps = np.log(np.maximum(spectrum[:, None] - spectrum, least * spectrum[:, None]))
    gaps = np.triu(gaps, 1)
    among = np.cumsum(np.cumsum(gaps, axis=0), axis=1).diagonal()[:-1]  # pairs i < j <= k
    to_all = np.cumsum(gaps.sum(axis=1))[:-1]  # pairs i <= k, j > i
    inverse_among = among - (k - 1) * np.cumsum(np.log(spectrum))[:-1]  # 1/l_j - 1/l_i = (l_i - l_j) / (l_i l_j)
    inverse_noise = [
        np.log(np.maximum(1 / noise[count - 1] - 1 / spectrum[:count], least / noise[count - 1])).sum() for count in k
    ]
    return to_all + inverse_among + (d - k) * np.array(inverse_noise)
