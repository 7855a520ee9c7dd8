"""The options that the functions and estimators share: their defaults, and what is wrong with those that are given."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from sklearn.utils import check_random_state

from vrpca.errors import OptionError
from vrpca.run import Record
from vrpca.solvers import SOLVERS
from vrpca.solvers.options import Options
from vrpca.solvers.steps import Theory

FIRST_GUESS = 8  # components tried first when a fraction of the variance is asked for


class SolveOptions(TypedDict, total=False):
    """The options that `svd`, `pca`, `PCA` and `TruncatedSVD` share; `PCA` describes them."""

    solver: str
    tol: float
    max_passes: float
    max_seconds: float | None
    oversample: int | None
    step: float | str
    theory: Theory | None
    epoch_length: int | None
    sampling: str
    control: str | None
    deflate: bool
    restarts: int
    cost: str
    certificate: str
    failure_probability: float
    n_threads: int | None
    random_state: int | np.random.RandomState | np.random.Generator | None
    callback: Callable[[Record], Any] | None
    verbose: bool


DEFAULTS: SolveOptions = {
    "solver": "auto",
    "tol": 1e-8,
    "max_passes": 100,
    "max_seconds": None,
    "oversample": None,
    "step": "auto",
    "theory": None,
    "epoch_length": None,
    "sampling": "uniform",
    "control": None,
    "deflate": False,
    "restarts": 1,
    "cost": "auto",
    "certificate": "estimated",
    "failure_probability": 1e-6,
    "n_threads": None,
    "random_state": None,
    "callback": None,
    "verbose": False,
}


def checked_options(given: SolveOptions) -> SolveOptions:
    """The options with defaults filled in, or an error that names the one that is wrong."""
    unknown = set(given) - set(DEFAULTS)
    if unknown:
        raise TypeError(f"Unknown option {sorted(unknown)[0]!r}; the options are {', '.join(DEFAULTS)}.")
    options: SolveOptions = {**DEFAULTS, **given}
    values: dict[str, Any] = {**options}
    _one_of(values, "solver", ("auto", *SOLVERS))
    _one_of(values, "cost", ("auto", "time", "passes"))
    _one_of(values, "certificate", ("estimated", "probabilistic"))
    for name, least in (("tol", 0), ("max_passes", 1)):
        if not _real(values[name]) or not float(values[name]) >= least:
            raise OptionError(f"{name}={values[name]!r} must be a number, at least {least}.")
    for name, least in (("restarts", 1), ("oversample", 0), ("n_threads", 1)):
        value, optional = values[name], name != "restarts"
        if not (optional and value is None) and not (_integer(value) and value >= least):
            raise OptionError(f"{name}={value!r} must be an integer, at least {least}.")
    failure, seconds, callback = options["failure_probability"], options["max_seconds"], options["callback"]
    if not _real(failure) or not 0 < failure < 1:
        raise OptionError(f"failure_probability={failure!r} must lie in (0, 1).")
    if seconds is not None and (not _real(seconds) or not seconds > 0):
        raise OptionError(f"max_seconds={seconds!r} must be a positive number or None.")
    if callback is not None and not callable(callback):
        raise OptionError(f"callback={callback!r} must be a function that takes a Record, or None.")
    if options["deflate"] and options["solver"] not in ("auto", "vr"):
        raise OptionError(f"deflate=True goes with solver='vr', not with {options['solver']!r}.")
    if options["step"] == "theory" and (options["deflate"] or options["solver"] not in ("auto", "vr", "hybrid")):
        raise OptionError("step='theory' is about Algorithm 1: use solver='vr' or 'hybrid', without deflate.")
    solver_options(options, columns=1)
    return options


def _one_of(values: dict[str, Any], name: str, known: tuple[str, ...]) -> None:
    if values[name] not in known:
        *others, last = (repr(value) for value in known)
        raise OptionError(f"{name}={values[name]!r} is not known: use {', '.join(others)} or {last}.")


def _real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def solver_options(o: SolveOptions, columns: int) -> Options:
    """The part of the options that reaches a solver, checked."""
    return Options(columns, o["tol"], o["step"], o["theory"], o["epoch_length"], o["sampling"], o["control"], o["cost"])


def extra_columns(options: SolveOptions, k: int, name: str) -> int:
    """Columns of the block besides the k that are wanted: what the user says, or what the solver likes."""
    asked = options["oversample"]
    return SOLVERS[name].extra_columns(k, options["cost"]) if asked is None else asked


def check_k(k: int | float | None, shape: tuple[int, int]) -> bool:
    """Check the number of components; return whether it is a fraction of the variance."""
    largest = min(shape)
    if k is None:
        return False
    if _integer(k):
        if not 1 <= k <= largest:
            raise OptionError(
                f"n_components={k} must be between 1 and min(n_samples, n_features)={largest}: X has shape {shape}."
            )
        return False
    if _real(k) and 0 < k < 1:
        return True
    raise OptionError(f"n_components={k!r} must be an integer, a fraction in (0, 1), or None.")


def check_weights(weights: Any, n: int) -> np.ndarray | None:
    """Return the sample weights as an array of n non-negative finite numbers, or None."""
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.dtype.kind not in "fiub":
        raise OptionError(f"sample_weight has entries of type {weights.dtype}: pass one real number per row.")
    weights = weights.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise OptionError(f"sample_weight.shape == {weights.shape}, expected {(n,)}: one weight per row.")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise OptionError("sample_weight must hold finite numbers that are not negative.")
    if not weights.any():
        raise OptionError("sample_weight is zero everywhere: at least one row must count.")
    if weights.sum() < 2:  # proportions, not numbers of rows
        weights *= np.count_nonzero(weights) / weights.sum()
    return weights


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator from anything that scikit-learn takes as `random_state`, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, numbers.Integral):
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
