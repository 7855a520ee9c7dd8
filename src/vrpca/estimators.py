"""`PCA` and `TruncatedSVD`, scikit-learn transformers: they validate, call the decomposition and store its findings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from vrpca.data.cluster.lazy import Outline, map_rows, outline
from vrpca.data.open import as_source, held_by_dask, is_open, is_path
from vrpca.data.source import Source
from vrpca.decomposition import Decomposition, Request, decompose
from vrpca.errors import DataError, Interrupted, OptionError, warn
from vrpca.genotypes import as_fitted, note_genotypes
from vrpca.history import Record
from vrpca.likelihood import Gaussian
from vrpca.options import (
    CertificateKind,
    Control,
    Cost,
    Sampling,
    SolveOptions,
    SolverName,
    StepRule,
    Theory,
    check_options,
    is_integer,
    names,
    refuse_foreign,
    shown,
)
from vrpca.scores import ScoresOfChunk, scores
from vrpca.sklearn_callbacks import CallbackSupportMixin, FitTask, with_callbacks
from vrpca.values import changed

T = TypeVar("T")
COLUMNS = ("n_features_in_", "feature_names_in_")  # what scikit-learn notes of X before the fit has succeeded

_PARAMETERS = """solver : str, default="auto"
        ``"auto"``, ``"accelerated"``, ``"krylov"`` (block Krylov iteration alone), ``"gram"`` (A itself, for a small
        side), or the paper's: ``"vr"`` (Algorithm 1 and its block form), ``"oja"``, ``"power"``, ``"hybrid"`` (n Oja
        steps, then `vr`); `solver_` and the first record of `history_` say what was taken and why.
    tol : float, default=1e-8
        Wanted suboptimality: ``1 - (variance explained) / (the most that as many components can explain)``. The run
        stops when its certificate is below it.
    angle_tol : float, optional
        Wanted accuracy of the directions: the run goes on until the certified sine of the angle between every component
        and its eigenvector is below it, too. Suboptimality is quadratic in the angle, so `tol` alone leaves a sine of
        about ``sqrt(tol * sum of the eigenvalues / gap)``: its square root at best, degrees where gaps are small.
        Components of equal variance count as one subspace. A last component whose variance equals the next one's,
        which is left out, cannot have an angle: `certificate_.angles` is 1 there.
    max_passes : float, default=100
        Passes over the data that may be spent (one more, if the last step has to be taken back). Not converging is a
        warning with a full result.
    max_seconds : float, optional
        Time that may be spent.
    oversample : int, optional
        Extra columns of the iterated block. By default none for one component, a few for more.
    step : float or str, default="auto"
        Step size in the units of the data (c of c/t for `oja`); ``"auto"`` or ``"paper"``, which mean the same, for
        ``1 / (mean squared row norm * sqrt n)``, or for a c that goes as far in n steps; ``"theory"`` for Theorem 1.
        The paper's step is halved when it proves too long, a number and the theory's are left alone.
    theory : Theory, optional
        The quantities of Theorem 1 for ``step="theory"``.
    epoch_length : int, optional
        Stochastic steps per epoch, n by default.
    sampling : {"uniform", "norm"}, default="uniform"
        How rows are drawn; ``"norm"`` in proportion to their squared norms, which a few heavy rows call for.
    control : {"difference", "projection"}, optional
        Control variate of `vr`: the paper's, or its projection form, which is the default for more than one component.
    deflate : bool, default=False
        Find the components one after the other (Remark 1's second option).
    restarts : int, default=1
        Independent runs, of which the one with the largest objective is kept.
    cost : {"auto", "time", "reading", "passes"}, default="auto"
        What `accelerated` is to save: ``"time"`` (narrow blocks, little arithmetic), ``"reading"`` (blocks as wide as
        can be multiplied while a disk reads 1 GB/s) or ``"passes"`` (as few passes as possible, whatever the
        arithmetic and memory). By default passes on a cluster; reading for files that every pass reads from the disk
        (those in raw binary form, as ``.npy``, from 1 GB on); else time.
    certificate : {"estimated", "probabilistic"}, default="estimated"
        What the certificate is to rest on: the search that found the components, or a fresh random search outside them,
        which costs further passes and bounds what was missed but for a `failure_probability`. Where `gram` is the
        solver, it is exact anyway, or probabilistic for float32 data whose rounding has to be measured.
    failure_probability : float, default=1e-6
        Probability that a probabilistic certificate is wrong.
    n_threads : int, optional
        Threads of the products; all cores by default, or with -1.
    memory_limit : int or str, optional
        Memory that a fit may take, in bytes or as ``"2GB"``, ``"500 MB"``, ``"1GiB"``. Files are read block by block
        then, and solvers keep fewer vectors where that is necessary; a limit that is too small is refused before the
        data are read, with the smallest one that would do. Data that are in memory already do not count.
    random_state : int, RandomState, Generator or None, default=None
        Seed: the same number gives the same bits on the same machine with the same number of threads.
    warm_start : bool, default=False
        Start from the components of the last fit.
    checkpoint : str or path, optional
        A file that the state of the fit is written to, every so often and at Ctrl-C. If it exists, the fit goes on
        from it, to the same bits as without a break; a file that belongs to other data or options is refused. It is
        removed at the end, unless the fit could go on: after Ctrl-C, a stop by `callback`, `max_passes` or
        `max_seconds`.
    callback : callable, optional
        Called with a `Record` after every step; a true return value stops the run.
    verbose : bool, default=False
        Show a progress bar on stderr."""

_ATTRIBUTES = """components_ : ndarray of shape (n_components_, n_features)
        The axes, rows of length 1; the entry of largest magnitude of each is positive.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the scores along each axis, about their mean.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same as a part of the variance of all columns.
    singular_values_ : ndarray of shape (n_components_,)
        Singular values of the (centred, scaled, weighted) data.
    n_components_ : int
        Number of components.
    n_features_in_, feature_names_in_
        Number of columns, and their names where they have any.
    n_samples_ : int
        Number of rows; with `sample_weight` the sum of the weights, a float unless it is whole.
    certificate_ : Certificate
        ``.suboptimality`` bounds how far from optimal the components can be; ``.kind`` says what that rests on.
    converged_ : bool
        Whether the certificate is below `tol`, of the kind that was asked for, and its angles are below `angle_tol`,
        where that is given.
    n_passes_ : float
        Passes over the data, fractions included.
    solver_ : str
        The solver that did it, and `solver_reason_` why.
    history_ : list of Record
        Passes, seconds, objective, residual and bound after every step.
    status_ : Status
        How the run ended; ``.value`` is advice.
    n_iter_ : int
        Steps of the solver, at least 1.
    allele_frequencies_ : ndarray of shape (n_features,) or None
        Of genotypes from a ``.bed`` file: the frequency of each variant's counted allele in the fit. Files that the
        model is applied to are filled, and scaled, by these. None for other data.
    alleles_ : ndarray of shape (n_features,) or None
        The two alleles of each variant, as ``"A/G"``: the first one is counted. Files with others are refused.
    genotypes_scaled_ : bool
        Whether genotypes were divided by ``sqrt(2 p (1 - p))`` (``scaling="genotype"``)."""


def _documented(estimator: type[T]) -> type[T]:
    """Fill in what the docstrings of the estimators share."""
    text = estimator.__doc__ or ""  # python -OO has none
    estimator.__doc__ = text.replace("{_PARAMETERS}", _PARAMETERS).replace("{_ATTRIBUTES}", _ATTRIBUTES)
    return estimator


@dataclass(eq=False, repr=False, kw_only=True)
class _Decomposer(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the two estimators have in common. The fields are their parameters: the dataclass writes ``__init__``."""

    whiten = False  # no field: a parameter of `PCA` alone
    solver: SolverName = "auto"
    tol: float = 1e-8
    angle_tol: float | None = None
    max_passes: float = 100
    max_seconds: float | None = None
    oversample: int | None = None
    step: float | StepRule = "auto"
    theory: Theory | None = None
    epoch_length: int | None = None
    sampling: Sampling = "uniform"
    control: Control | None = None
    deflate: bool = False
    restarts: int = 1
    cost: Cost = "auto"
    certificate: CertificateKind = "estimated"
    failure_probability: float = 1e-6
    n_threads: int | None = None
    memory_limit: int | str | None = None
    random_state: Any = None
    warm_start: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    callback: Callable[[Record], Any] | None = None
    verbose: bool = False

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """An estimator, unless an option is one of another library's."""
        refuse_foreign(options)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set options by name, as scikit-learn does; options of other libraries are answered with what to write."""
        refuse_foreign(params)
        return super().set_params(**params)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, path, list of paths or Source of shape (n_samples, n_features)
            The data. It is not copied, changed or densified.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row; a row of weight 2 counts as two rows. Weights that sum to less than 2 are taken as
            proportions.

        Returns
        -------
        self
        """
        check_options(warm_start=self.warm_start, whiten=self.whiten, memory_limit=self.memory_limit)
        source = as_source(X, self.memory_limit is not None)
        before = {name: value for name, value in self.__dict__.items() if name in COLUMNS}
        try:
            note_columns(self, X, source)
            task = FitTask(self, X, y)
            options = {name: getattr(self, name) for name in names()} | {"callback": task.joined(self.callback)}
            request = changed(self._request(source), sample_weight=sample_weight, start=self._start(), compute_u=False)
            self._store(decompose(request, cast(SolveOptions, options)), source)
        except Interrupted as interrupted:  # the best answer so far is kept, and the caller's loop ends
            self._store(interrupted.decomposition, source)
            task.end()
            raise
        except BaseException:  # the model stays as it was
            for name in COLUMNS:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        task.end()
        return self

    def _start(self) -> np.ndarray | None:
        warm = self.warm_start and hasattr(self, "components_")
        if warm and self.components_.shape[1] == self.n_features_in_:
            return self.components_
        return None

    def _request(self, source: Source) -> Request:
        """What is to be decomposed."""
        raise TypeError("Use PCA or TruncatedSVD.")

    def _store(self, found: Decomposition, source: Source) -> None:
        check_variance(found)
        note_genotypes(self, source)
        self.mean_ = found.mean
        self.scale_ = found.scale
        self.components_ = found.Vt
        self.singular_values_ = found.s
        self.n_components_ = len(found.s)
        self.n_samples_ = int(found.n_samples) if float(found.n_samples).is_integer() else found.n_samples
        self._store_variance(found)
        self.certificate_ = found.certificate
        self.converged_ = found.converged
        self.n_passes_ = found.n_passes
        self.solver_ = found.solver
        self.solver_reason_ = found.reason
        self.history_ = found.history
        self.status_ = found.status
        self.n_iter_ = max(1, found.history[-1].epoch)

    def _store_variance(self, found: Decomposition) -> None:
        """Store the explained variances, as scikit-learn's class of the same name defines them."""
        raise TypeError("Use PCA or TruncatedSVD.")

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Find the components of X, then project X onto them: the same as `fit`, then `transform`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            A data frame instead, after ``set_output(transform="pandas")``, say.
        """
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    def transform(self, X: Any) -> np.ndarray:
        """Project X onto the components, and whiten the scores if asked for.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, path, list of paths or Source of shape (n_samples, n_features)
            The data, one row or more; or what dask holds.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            An array of dask, which waits until it is computed, for what dask holds.
        """
        return self._transform(X)

    def _transform(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The scores, in `out` if given."""
        check_is_fitted(self)
        if held_by_dask(X):
            return self._lazy_scores(X)
        source = as_source(X, self.memory_limit is not None)
        check_columns(self, X, source)
        projected = scores(as_fitted(self, source), self.components_, self.mean_, self.scale_, out)
        if self.whiten:
            projected *= self._whitening().astype(projected.dtype)
        return projected

    def _lazy_scores(self, X: Any) -> Any:
        """The scores of data that dask holds, as a dask array: nothing is read until it is computed."""
        known = outline(X)
        if known is not None:
            check_columns(self, X, known)
        dtype = self.components_.dtype
        whitening = self._whitening().astype(dtype) if self.whiten else None
        function = ScoresOfChunk(self.components_, self.mean_, self.scale_, whitening, dtype)
        return map_rows(X, function, self.n_components_, dtype)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Map scores back to the space of the data, undoing the whitening.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            Scores, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        if self.whiten:
            X = X * np.sqrt(self.explained_variance_)
        back = X @ self.components_
        if self.scale_ is not None:
            back *= self.scale_
        if self.mean_ is not None:
            back += self.mean_
        return back

    def _whitening(self) -> np.ndarray:
        """One over the deviation along each axis; zero where there is none up to rounding."""
        deviation = np.sqrt(self.explained_variance_.astype(np.float64))
        rounding = max(self.components_.shape[1], 10) * np.finfo(self.components_.dtype).eps * deviation[0]
        return np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > rounding)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def note_columns(model: Any, X: Any, source: Source) -> None:
    """Store the number of columns and, where there are any, their names."""
    lies_in_files = is_path(X) or is_open(X) or isinstance(X, Source)
    validate_data(model, source if lies_in_files else X, skip_check_array=True)
    if lies_in_files and source.column_names is not None:
        model.feature_names_in_ = np.asarray(source.column_names, dtype=object)


def check_columns(model: Any, X: Any, source: Source | Outline) -> None:
    """Raise unless X has the columns of the fit. Names of files and sources are compared as those of data frames."""
    lies_in_files = is_path(X) or is_open(X) or isinstance(X, Source)
    if not lies_in_files or source.column_names is None:
        validate_data(model, source if lies_in_files else X, reset=False, skip_check_array=True)
        return
    if source.shape[1] != model.n_features_in_:
        raise DataError(f"X has {source.shape[1]} features, but the model was fitted on {model.n_features_in_}.")
    fitted, kind = getattr(model, "feature_names_in_", None), type(model).__name__
    if fitted is None:
        warn(f"X has feature names, but {kind} was fitted without feature names")
    elif list(fitted) != list(source.column_names):
        j = next(j for j, name in enumerate(fitted) if name != source.column_names[j])
        raise DataError(
            "The feature names should match those that were passed during fit: "
            f"column {j} is {source.column_names[j]!r}, but was {fitted[j]!r}. Pass the same columns in the same order."
        )


def check_variance(found: Decomposition) -> None:
    """Raise where the type of the data cannot hold the squares of its entries."""
    root, dtype = found.norm / np.sqrt(found.n_samples), found.s.dtype
    if not float(np.finfo(dtype).tiny) ** 0.5 < root < float(np.finfo(dtype).max) ** 0.5:
        remedy = "pass X as float64" if dtype == np.float32 else "divide X by its largest entry"
        raise DataError(f"The variance of X, {root:.1e} squared, is out of the range of {dtype}: {remedy}.")


@_documented
@dataclass(eq=False, repr=False)
class PCA(_Decomposer):
    """Principal component analysis to the accuracy that `tol` asks for, with a certificate.

    Dense or sparse: sparse data are centred without becoming dense.

    Parameters
    ----------
    n_components : int, float, "mle" or None, default=None
        Number of components; a fraction in (0, 1) for as many as explain that part of the variance; ``"mle"`` for the
        number that Minka's formula finds, for at least as many rows as columns; None for all, min(n_samples,
        n_features).
    {_PARAMETERS}
    center : bool, default=True
        Subtract the column means, implicitly.
    scale : bool, default=False
        Divide by the columns' standard deviations (divisor n), implicitly.
    whiten : bool, default=False
        Scale the scores to unit variance; directions without variance give zeros.

    Attributes
    ----------
    {_ATTRIBUTES}
    mean_ : ndarray of shape (n_features,) or None
        The means that are subtracted.
    scale_ : ndarray of shape (n_features,) or None
        The deviations that are divided by.
    noise_variance_ : float
        Mean of the discarded eigenvalues.

    Examples
    --------
    >>> import numpy as np, vrpca
    >>> X = np.random.default_rng(0).standard_normal((1000, 50)) * np.geomspace(1, 0.01, 50)
    >>> model = vrpca.PCA(3, random_state=0).fit(X)
    >>> model.transform(X).shape
    (1000, 3)
    >>> model.converged_, model.certificate_.kind
    (True, 'exact')
    """

    n_components: int | float | Literal["mle"] | None = None
    _: KW_ONLY
    center: bool = True
    scale: bool = False
    whiten: bool = False

    def _request(self, source: Source) -> Request:
        return Request(source, self.n_components, self.center, self.scale, k_name="n_components")

    def _store_variance(self, found: Decomposition) -> None:
        degrees = found.n_samples - 1 if found.n_samples > 1 and self.center else found.n_samples
        variance = (found.s.astype(np.float64) / np.sqrt(degrees)) ** 2
        self.explained_variance_ = variance.astype(found.s.dtype)
        self.explained_variance_ratio_ = found.explained_variance_ratio.astype(found.s.dtype)
        left = found.rank_limit - len(found.s)
        rest = (found.norm / np.sqrt(degrees)) ** 2 - variance.sum()
        self.noise_variance_ = max(0.0, rest / left) if left > 0 else 0.0

    def get_covariance(self) -> np.ndarray:
        """The covariance matrix of the fitted model: components, and noise in all other directions.

        It is that of the data in their own units, also with ``scale=True``. With ``whiten=True`` the variances along
        the components are those that scikit-learn has there, which are not the data's:
        ``variance * (variance - noise) + noise``.

        Returns
        -------
        ndarray of shape (n_features, n_features)
        """
        return self._gaussian().covariance().astype(self.components_.dtype)

    def get_precision(self) -> np.ndarray:
        """The inverse of `get_covariance`; its pseudo-inverse where there are directions without variance.

        Returns
        -------
        ndarray of shape (n_features, n_features)
        """
        return self._gaussian().precision().astype(self.components_.dtype)

    def score_samples(self, X: Any) -> np.ndarray:
        """The log-likelihood of each row under the fitted model (probabilistic PCA), without a d x d matrix.

        Directions without any variance are left out.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, path, list of paths or Source of shape (n_samples, n_features)
            The data, one row or more.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        model = self._gaussian()
        source = as_source(X, self.memory_limit is not None)
        check_columns(self, X, source)
        return model.log_density(as_fitted(self, source))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`: `cross_val_score` and `GridSearchCV` choose `n_components` by it.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, path, list of paths or Source of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def _gaussian(self) -> Gaussian:
        """The distribution that the model stands for."""
        check_is_fitted(self)
        noise, d = float(self.noise_variance_), self.components_.shape[1]
        found = self.explained_variance_.astype(np.float64)
        variances = np.maximum(found, noise)
        if self.whiten:
            variances = found * (variances - noise) + noise
        mean = np.zeros(d) if self.mean_ is None else self.mean_
        scale = np.ones(d) if self.scale_ is None else self.scale_
        return Gaussian(self.components_.astype(np.float64), variances, noise, mean, scale)


@_documented
@dataclass(eq=False, repr=False)
class TruncatedSVD(_Decomposer):
    """Truncated singular value decomposition of the data as they are: no centring.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    {_PARAMETERS}

    Attributes
    ----------
    {_ATTRIBUTES}
    mean_, scale_ : None
        Nothing is subtracted, and nothing divided by.

    Examples
    --------
    >>> import scipy.sparse, vrpca
    >>> X = scipy.sparse.random_array((500, 300), density=0.05, format="csr", rng=0)
    >>> vrpca.TruncatedSVD(2, random_state=0).fit_transform(X).shape
    (500, 2)
    """

    n_components: int = 2

    def _request(self, source: Source) -> Request:
        if not is_integer(self.n_components):
            raise OptionError(f"n_components={shown(self.n_components)} must be an integer.")
        return Request(source, int(self.n_components), False, False, variances=True, k_name="n_components")

    def _store_variance(self, found: Decomposition) -> None:
        assert found.score_variance is not None and found.column_variance is not None
        ratio = found.score_variance / (found.column_variance or np.inf)  # constant rows have no variance to explain
        self.explained_variance_ = found.score_variance.astype(found.s.dtype)
        self.explained_variance_ratio_ = np.minimum(ratio, 1.0).astype(found.s.dtype)  # rounding may say a little more
