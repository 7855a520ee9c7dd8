"""An independent look at a fitted model: its components against data, with nothing else that the fit stored trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vrpca.certificate import Certificate, Probe
from vrpca.data.moments import Moments, column_moments
from vrpca.data.source import Source, as_source
from vrpca.data.view import View, make_view
from vrpca.decomposition import as_generator, check_weights
from vrpca.decomposition import n_threads as threads
from vrpca.errors import DataError, OptionError
from vrpca.linalg import aligned_zeros, cross, orthonormalise
from vrpca.solvers.iterate import Iterate, snapshot


@dataclass(frozen=True)
class Check:
    """What the data say about a model.

    Attributes
    ----------
    certificate : Certificate
        Bound on the suboptimality of the model's components, found anew.
    explained_variance_ratio : numpy.ndarray
        The part of the total variance along each component, found anew.
    mean_deviation : float
        Largest difference between the model's means and the data's, in the units of the data.
    n_passes : float
        Readings of the data.
    tol : float
        What the bound was compared with.
    """

    certificate: Certificate
    explained_variance_ratio: np.ndarray = field(repr=False)
    mean_deviation: float
    n_passes: float
    tol: float

    @property
    def ok(self) -> bool:
        """Whether the bound is at most `tol`."""
        return self.certificate.suboptimality <= self.tol


def check(
    model: Any,
    X: Any,
    *,
    passes: int = 12,
    tol: float | None = None,
    n_threads: int | None = None,
    random_state: Any = 0,
    sample_weight: Any = None,
) -> Check:
    """Check a fitted model against data: are its components the leading ones?

    Only the components and the options `center` and `scale` are taken from the model.

    Parameters
    ----------
    model : PCA or TruncatedSVD
        A fitted model.
    X : array-like, sparse matrix, data frame, path or Source of shape (n_samples, n_features)
        The data, usually those of the fit.
    passes : int, default=12
        Readings of the data that may be spent.
    tol : float, optional
        Wanted suboptimality; the model's own `tol` by default.
    n_threads : int, optional
        Threads of the products; all cores by default.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the search outside the model's components.
    sample_weight : array-like of shape (n_samples,), optional
        Weight of each row, if the model was fitted with weights.

    Returns
    -------
    Check

    Examples
    --------
    >>> import numpy as np, vrpca
    >>> from vrpca.check import check
    >>> X = np.random.default_rng(0).standard_normal((1000, 50)) * np.geomspace(1, 0.01, 50)
    >>> model = vrpca.PCA(3, random_state=0).fit(X)
    >>> check(model, X).ok
    True
    >>> model.components_[1] = np.eye(50)[7]
    >>> check(model, X).ok
    False
    """
    check_is_fitted(model)
    tol = model.tol if tol is None else tol
    if not tol >= 0:
        raise OptionError(f"tol={tol!r} must be a number, at least 0.")
    if not passes >= MIN_PASSES:
        raise OptionError(f"passes={passes!r} must be at least {MIN_PASSES}: fewer readings say nothing.")
    source = as_source(X)
    weights = check_weights(sample_weight, source.shape[0])
    components = _components(model, source)
    center, scale = getattr(model, "center", False), getattr(model, "scale", False)
    moments = column_moments(source, weights, threads(n_threads))
    view = make_view(
        source,
        moments,
        center=center,
        scale=scale,
        weights=weights,
        transpose=False,
        n_threads=threads(n_threads),
    )
    if not view.frobenius > 0:
        raise DataError("X has no variance: there is nothing that a model could explain. Check how X was made.")
    view.rows_read = view.n  # the moments took one reading
    W = _orthonormal(components, view)
    it, certificate = _refine(view, W.copy(), passes, tol, as_generator(random_state))
    ratio = it.theta @ cross(it.W, W) ** 2
    return Check(certificate, ratio, _mean_deviation(model, moments), view.passes, float(tol))
