"""An independent check of a fitted model: its components against data. Nothing else that the fit stored is trusted."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_is_fitted

from vrpca.certificate import Certificate, certify
from vrpca.data.first_pass import column_moments
from vrpca.data.open import as_source
from vrpca.data.source import Source, errors_named, naming_columns
from vrpca.data.view import Problem, View
from vrpca.errors import DataError, OptionError
from vrpca.genotypes import as_fitted
from vrpca.options import as_generator, check_options, check_weights, is_real
from vrpca.run import Budget
from vrpca.threads import n_threads as threads

# `benchmarks/check_search.py` varies these three on 200 right models, and on 200 with the wrong last component.
EXTRA = 4  # columns of the search per pass: 1 takes 10 passes and accepts a wrong model, 4 take 7.5 passes, 8 take 6.6
PATIENCE = 6  # passes before an early end: 3 accept 22 of the wrong models, 4 accept 5, 6 and 8 none
SETTLED = 0.1  # residual for an early end, as a part of the gap: after 3 passes 1.0 accepts 47 of them, 0.3 and 0.1 22
ROUNDING = 8  # times eps: shorter residuals are rounding, as in `vrpca.certificate`


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
        Passes over the data.
    tol : float
        What the bound was compared with.
    at_least : float
        The suboptimality is at least this: the search has found components that explain more by as much.
    """

    certificate: Certificate
    explained_variance_ratio: np.ndarray = field(repr=False)
    mean_deviation: float
    n_passes: float
    tol: float
    at_least: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the bound is at most `tol`."""
        return self.certificate.suboptimality <= self.tol

    @property
    def verdict(self) -> str:
        """``"proven"``, ``"wrong"`` or ``"not proven"``: more passes may still prove or refute the last kind."""
        return "proven" if self.ok else "wrong" if self.at_least > self.tol else "not proven"


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
    """Check a fitted model against data: whether its components are the leading ones.

    Only the components and the options `center` and `scale` are taken from the model; of genotypes also the allele
    frequencies, by which they are filled and scaled. A block Krylov search from a random start looks for variance that
    the components miss; whatever it finds counts against the model.

    Parameters
    ----------
    model : PCA or TruncatedSVD
        A fitted model.
    X : array-like, sparse matrix, data frame, path or Source of shape (n_samples, n_features)
        The data, usually those of the fit.
    passes : int, default=12
        Passes over the data that may be spent; twice as many where data are stored by columns: every step of the search
        reads them twice then.
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
    >>> check(model, X).verdict
    'wrong'
    """
    check_is_fitted(model)
    tol = model.tol if tol is None else tol
    check_options(tol=tol, n_threads=n_threads, random_state=random_state)
    if not (is_real(passes) and passes >= PATIENCE):
        raise OptionError(f"passes={passes!r} must be at least {PATIENCE}: fewer prove nothing.")
    source = as_source(X)
    components = _components(model, source)
    source = as_fitted(model, source)
    weights = check_weights(sample_weight, source.shape[0])
    center, scale = (bool(model.get_params(deep=False).get(name, False)) for name in ("center", "scale"))
    problem = Problem(source, weights, center, scale, threads(n_threads))
    with errors_named(source), naming_columns(source.column_names):
        moments = column_moments(source, weights, problem.n_threads)
        if not problem.square(moments).any():
            raise DataError("X has no variance: there is nothing that a model could explain. Check how X was made.")
    view = View.of(problem, moments)
    budget = Budget(view, moments.passes * view.n, time.perf_counter(), passes * view.passes_of_product, None)
    search = _Search(view, components, budget, as_generator(random_state))
    certificate = search.run(tol)
    deviation = 0.0 if model.mean_ is None else float(np.abs(model.mean_ - moments.data_mean).max())
    return Check(certificate, search.ratio, deviation, budget.passes, float(tol), search.at_least)


def _components(model: Any, source: Source) -> np.ndarray:
    """The model's components as columns, in double precision."""
    components = np.asarray(model.components_, dtype=np.float64)
    if components.ndim != 2 or not np.isfinite(components).all():
        raise DataError("The model's components are not a matrix of finite numbers: fit it again.")
    if components.shape[1] != source.shape[1]:
        raise DataError(
            f"X has {source.shape[1]} features, but the model was fitted on {components.shape[1]}: pass the data that "
            "the model is for."
        )
    return components.T


class _Search:
    """Rayleigh-Ritz over the model's components W and a block Krylov space that starts at random outside them.

    S = [W, ...] and AS = A S grow by a few columns with every pass. S is orthonormal only up to the rounding of the
    data's type, and a bound of 1e-8 would notice that. So all sums are in double precision, and ``M = S^T S`` is used
    where `SearchSpace` takes S to be orthonormal.
    """

    def __init__(self, view: View, components: np.ndarray, budget: Budget, rng: np.random.Generator):
        self.view, self.budget = view, budget
        self.cost, self.unit = view.passes_of_product, float(np.finfo(view.dtype).eps)
        self.k = components.shape[1]
        start = rng.standard_normal((view.d, min(EXTRA, view.d - self.k)))
        if view.support is not None:
            start[~view.support] = 0
        self.S = np.zeros((view.d, 0))
        self.AS = np.zeros((view.d, 0))
        self._extend(np.linalg.qr(np.column_stack([components, start]))[0])
        W, U = self.S[:, : self.k], self.AS[:, : self.k]
        H, M = W.T @ U, W.T @ W
        self.ratio = np.diag(H) / np.diag(M)
        self.objective = float(np.trace(np.linalg.solve(M, H)))
        R = U - W * self.ratio
        self.residual_gram = R.T @ R
        self.at_least = 0.0

    def run(self, tol: float) -> Certificate:
        """Search until the passes are spent or nothing is left to find; return the last certificate."""
        while True:
            theta, R = self._pairs()
            certificate = self._certificate(theta, R)
            patient = self.budget.passes >= 1 + (PATIENCE - 1) * self.cost
            done = patient and certificate.suboptimality <= tol and self._settled(theta, R)
            new = self._directions(R)
            if done or not self.budget.affords(self.cost) or not new.size:
                return certificate
            self._extend(new)

    def _extend(self, columns: np.ndarray) -> None:
        """Take in columns and their images, by one product."""
        Q = np.ascontiguousarray(columns, dtype=self.view.dtype)
        self.S = np.column_stack([self.S, Q.astype(np.float64)])
        self.AS = np.column_stack([self.AS, self.view.product(Q).astype(np.float64)])

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Ritz values, largest first, and the residuals of the leading pairs: one more than the certificate is for."""
        H = self.S.T @ self.AS
        theta, Y = scipy.linalg.eigh((H + H.T) / 2, self.S.T @ self.S)
        theta, Y = theta[::-1], Y[:, ::-1][:, : self.k + EXTRA + 1]
        rounding = 2 * ROUNDING * self.view.rounding  # of the two sums that are compared
        self.at_least = max(0.0, 1 - self.objective / float(theta[: self.k].sum()) - rounding)
        return theta, self.AS @ Y - self.S @ (Y * theta[: Y.shape[1]])

    def _certificate(self, theta: np.ndarray, R: np.ndarray) -> Certificate:
        """Bound for the model's components: the search space bounds the optimum, to compare their objective with.

        If the space's k leading vectors are at most ``b`` from optimal, the optimum is at most their sum / ``1 - b``.
        """
        k, d, eps = self.k, self.view.d, self.view.rounding
        count = min(k + EXTRA, len(theta))
        G = R[:, :count].T @ R[:, :count]
        found = certify(theta[:count], G, k, d, _outside(theta, R, count), "estimated", eps, unit=self.unit)
        share = self.objective / float(theta[:k].sum())
        bound = max(0.0, 1 - share * (1 - found.suboptimality))
        own = certify(self.ratio, self.residual_gram, k, d, _outside(theta, R, k), found.kind, eps, unit=self.unit)
        missed = theta[:k] > self.ratio + np.sqrt(np.diag(self.residual_gram))  # not the j-th eigenvector at all
        return replace(own, suboptimality=bound, angles=np.where(missed, 1.0, own.angles))

    def _settled(self, theta: np.ndarray, R: np.ndarray) -> bool:
        """Whether the largest value outside has converged enough to be told from the k-th."""
        if len(theta) <= self.k:
            return True
        gap = theta[self.k - 1] - theta[self.k]
        return float(np.linalg.norm(R[:, self.k])) <= SETTLED * gap

    def _directions(self, R: np.ndarray) -> np.ndarray:
        """The longest residuals, orthonormal to the space; none when all that is left is rounding."""
        R = R[:, : self.k + EXTRA]
        lengths = np.linalg.norm(R, axis=0)
        longest = np.argsort(-lengths)[: min(EXTRA, self.view.d - self.S.shape[1])]
        new = R[:, longest[lengths[longest] > ROUNDING * self.view.rounding]]
        if not new.size:
            return new
        for _ in range(2):
            new = new - self.S @ (self.S.T @ new)
            new = scipy.linalg.orth(new)
        return new


def _outside(theta: np.ndarray, R: np.ndarray, count: int) -> float:
    """The largest eigenvalue outside the leading Ritz vectors, estimated by the next pair; at most the trace left."""
    left = max(0.0, 1.0 - float(theta[:count].sum()))  # of tr A = 1
    return left if count == len(theta) else min(left, float(theta[count] + np.linalg.norm(R[:, count])))
