"""The options that the functions and estimators share: their defaults and their checks."""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, TypeGuard, get_args

import numpy as np
from sklearn.utils import check_random_state

from vrpca.errors import OptionError
from vrpca.history import Record
from vrpca.memory import as_bytes

SolverName = Literal["auto", "vr", "oja", "power", "hybrid", "krylov", "accelerated", "gram"]
StepRule = Literal["auto", "paper", "theory"]
Cost = Literal["auto", "time", "reading", "passes"]
CertificateKind = Literal["estimated", "probabilistic"]
Sampling = Literal["uniform", "norm"]
Control = Literal["difference", "projection"]

SOLVERS: tuple[str, ...] = get_args(SolverName)[1:]  # without "auto"; vrpca.solvers has their classes
STEP_RULES: tuple[str, ...] = get_args(StepRule)
CHOICES: dict[str, tuple[str | None, ...]] = {
    "solver": get_args(SolverName),
    "cost": get_args(Cost),
    "certificate": get_args(CertificateKind),
    "sampling": get_args(Sampling),
    "control": (*get_args(Control), None),
}
ALL_CORES = -1  # as joblib and scikit-learn write it
MLE = "mle"  # the number of components that Minka's formula finds, as scikit-learn writes it

HINTS = {"certificate='exact'": " solver='gram' gives an exact one of float64 data."}  # for values that users try
# Options of scikit-learn's, scipy's and scanpy's functions that have no meaning here, and what to write instead.
FOREIGN = {
    "svd_solver": "leave it out, or choose with solver= ('gram' for an exact answer); tol says how accurate it is",
    "algorithm": "leave it out, or choose with solver=; tol says how accurate the answer is",
    "n_jobs": "write n_threads=",
    "iterated_power": "leave it out: the run goes on until tol is reached, within max_passes",
    "n_iter": "leave it out: the run goes on until tol is reached, within max_passes",
    "n_oversamples": "write oversample=, or leave it out",
    "power_iteration_normalizer": "leave it out",
    "copy": "leave it out: X is never changed, and copied only where its format has to be converted",
    "batch_size": "leave it out, or bound the memory with memory_limit=",
    "zero_center": "write center=",
    "chunked": "leave it out: no chunks are needed, since data in a file are read block by block",
    "chunk_size": "leave it out, or bound the memory with memory_limit=",
    "use_highly_variable": "write mask_var= (of vrpca.anndata.pca): a column of adata.var, or None for all genes",
    "n_comps": "write n_components= (k in vrpca.pca and vrpca.svd)",
    "v0": "write start= (of vrpca.svd and vrpca.pca), or warm_start=True",
    "return_singular_vectors": "write compute_u=",
}


LONGEST = 80  # characters of a value in a message: no number has more, and the message stays on one line
MOST_THREADS = 8192  # the most processors that Linux supports on x86 (CONFIG_NR_CPUS)


def is_real(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number, and not a truth value or a duration."""
    return type(value) is float or (isinstance(value, numbers.Real) and not isinstance(value, bool | np.timedelta64))


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, and not a truth value or a duration."""
    return type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool | np.timedelta64))


def is_flag(value: Any) -> bool:
    """Whether a value is true or false; 1 and 0 will do."""
    return type(value) is bool or isinstance(value, np.bool_) or (is_integer(value) and value in (0, 1))


def is_random(value: Any) -> bool:
    """Whether random numbers can be had from a value: a seed, a generator, or `numpy.random` itself."""
    if isinstance(value, bool) or is_integer(value):
        return int(value) >= 0
    return isinstance(value, np.random.Generator | np.random.RandomState) or value is np.random


def _anything(value: Any) -> bool:
    return True


Rule = tuple[Callable[[Any], bool], Callable[[Any], bool], str]
FLAG: Rule = (is_flag, _anything, "be True or False")
# A value must be of this kind and pass this test, in words. None also goes where it is the default.
RULES: dict[str, Rule] = {
    "tol": (is_real, lambda value: value >= 0, "be a number, at least 0"),
    "angle_tol": (is_real, lambda value: 0 < value < 1, "lie in (0, 1) or be None"),
    "max_passes": (is_real, lambda value: value >= 1, "be a number, at least 1"),
    "max_seconds": (is_real, lambda value: value > 0, "be a positive number or None"),
    "oversample": (is_integer, lambda value: value >= 0, "be an integer, at least 0"),
    "theory": (lambda value: isinstance(value, Theory), _anything, "be a vrpca.Theory or None"),
    "epoch_length": (is_integer, lambda value: value >= 1, "be a positive integer or None"),
    "restarts": (is_integer, lambda value: value >= 1, "be an integer, at least 1"),
    "failure_probability": (is_real, lambda value: 0 < value < 1, "lie in (0, 1)"),
    "n_threads": (
        is_integer,
        lambda value: value == ALL_CORES or 1 <= value <= MOST_THREADS,
        f"be an integer, at least 1 and at most {MOST_THREADS}, or {ALL_CORES} for all cores",
    ),
    "memory_limit": (
        lambda value: isinstance(value, str) or is_integer(value),
        lambda value: as_bytes(value) is not None,
        "be a number of bytes, such as 2000000000, '2GB', '500 MB' or '1GiB', or None",
    ),
    "random_state": (is_random, _anything, "be a seed (an integer, at least 0), a RandomState, a Generator or None"),
    "checkpoint": (lambda value: isinstance(value, str | os.PathLike), _anything, "be the path of a file, or None"),
    "callback": (callable, _anything, "be a function that takes a Record, or None"),
    "verbose": (lambda value: is_flag(value) or is_integer(value), _anything, "be True or False"),
    **dict.fromkeys(("deflate", "center", "scale", "whiten", "warm_start", "compute_u"), FLAG),
}


def check_options(**given: Any) -> None:
    """Raise unless each of these options has a value that it can have.

    Examples
    --------
    >>> check_options(tol=1e-3, center=True)
    >>> check_options(center="yes")
    Traceback (most recent call last):
    vrpca.errors.OptionError: center='yes' must be True or False.
    """
    for name, value in given.items():
        if name in CHOICES and not ((value is None or isinstance(value, str)) and value in CHOICES[name]):
            *others, last = map(repr, CHOICES[name])
            hint = HINTS.get(f"{name}={shown(value)}", "")
            raise OptionError(f"{name}={shown(value)} is not known: use {', '.join(others)} or {last}.{hint}")
        if name in RULES and not (value is None and getattr(Options, name, ...) is None):
            is_kind, holds, rule = RULES[name]
            if not (is_kind(value) and holds(value)):
                raise OptionError(f"{name}={shown(value)} must {rule}.")


def shown(value: Any) -> str:
    """The value as messages show it: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


@dataclass(frozen=True)
class Theory:
    """What Theorem 1 asks for, with its unnamed constants set to `c`.

    Attributes
    ----------
    gap : float
        The eigengap lambda between the first two eigenvalues of A, in the units of the data.
    delta : float
        Failure probability per epoch.
    epsilon : float
        Wanted accuracy, ``1 - <w, v_1>^2``.
    r : float or None
        Largest squared row norm; measured by one pass if None.
    c : float
        The theorem's constants c_1 and c_2, which the paper leaves open.
    """

    gap: float
    delta: float = 0.1
    epsilon: float = 1e-8
    r: float | None = None
    c: float = 1.0

    def __post_init__(self) -> None:
        for name in ("delta", "epsilon"):
            value = getattr(self, name)
            if not (is_real(value) and 0 < value < 1):
                raise OptionError(f"{name}={shown(value)} must lie in (0, 1).")
        sizes = (self.gap, self.c, 1.0 if self.r is None else self.r)
        if not all(is_real(size) and 0 < size < math.inf for size in sizes):
            raise OptionError(f"gap={self.gap!r}, c={self.c!r} and r={self.r!r} must be positive numbers.")

    def plan(self, r: float) -> tuple[float, int, int]:
        """Step size, epoch length and number of epochs: equation (thmcondme) of the paper, with equality.

        >>> eta, m, epochs = Theory(gap=0.1, delta=0.1, epsilon=1e-8).plan(r=1.0)
        >>> round(eta, 6), m, epochs
        (0.001, 29958, 7)
        """
        eta = self.c * self.delta**2 * self.gap / r**2
        m = math.ceil(self.c * math.log(2 / self.delta) / (eta * self.gap))
        epochs = math.ceil(math.log(1 / self.epsilon) / math.log(2 / self.delta))
        return eta, m, epochs


class SolveOptions(TypedDict, total=False):
    """The fields of `Options`, as type checkers want them for the keywords of `svd` and `pca`."""

    solver: SolverName
    tol: float
    angle_tol: float | None
    max_passes: float
    max_seconds: float | None
    oversample: int | None
    step: float | StepRule
    theory: Theory | None
    epoch_length: int | None
    sampling: Sampling
    control: Control | None
    deflate: bool
    restarts: int
    cost: Cost
    certificate: CertificateKind
    failure_probability: float
    n_threads: int | None
    memory_limit: int | str | None
    random_state: int | np.random.RandomState | np.random.Generator | None
    checkpoint: str | os.PathLike[str] | None
    callback: Callable[[Record], Any] | None
    verbose: bool


@dataclass(frozen=True)
class Options:
    """The options that `svd`, `pca`, `PCA` and `TruncatedSVD` share, checked; `PCA` describes them."""

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
    random_state: int | np.random.RandomState | np.random.Generator | None = None
    checkpoint: str | os.PathLike[str] | None = None
    callback: Callable[[Record], Any] | None = None
    verbose: bool = False

    @classmethod
    def given(cls, options: SolveOptions) -> Options:
        """The options with defaults filled in, or an error that names the one that is wrong."""
        unknown = [name for name in options if name not in defaults()]
        if unknown:
            refuse_foreign(unknown)
            raise TypeError(f"Unknown option {sorted(unknown)[0]!r}; the options are {', '.join(names())}.")
        self = object.__new__(cls)  # sets all fields at once: a frozen class takes longer to set each of them
        vars(self).update(defaults(), **options)
        self.__post_init__()
        return self

    def __post_init__(self) -> None:
        default = defaults()
        given = {name: value for name, value in vars(self).items() if value is not default[name]}
        check_options(**given)
        if self.deflate and self.solver not in ("auto", "vr"):
            raise OptionError(f"deflate=True goes with solver='vr', not with {self.solver!r}.")
        self._check_step()
        for name, value in given.items():
            if isinstance(value, np.generic):  # np.int8(100) + np.int8(100) overflows
                object.__setattr__(self, name, value.item())

    def _check_step(self) -> None:
        step, rules = self.step, f"a positive number, or one of {', '.join(STEP_RULES)}"
        if isinstance(step, str) and step not in STEP_RULES:
            raise OptionError(f"step={shown(step)} is not known: give {rules}.")
        if not isinstance(step, str) and not (is_real(step) and 0 < step < math.inf):
            raise OptionError(f"step={shown(step)} must be {rules}.")
        if step == "theory" and (self.deflate or self.solver not in ("auto", "vr", "hybrid")):
            raise OptionError("step='theory' is about Algorithm 1: use solver='vr' or 'hybrid', without deflate.")
        if step == "theory" and self.theory is None:
            raise OptionError(
                "step='theory' needs the quantities of Theorem 1: pass theory=vrpca.Theory(gap=..., delta=...)."
            )

    def check_width(self, width: int) -> None:
        """Raise where the options do not allow a block of `width` columns."""
        if self.step == "theory" and width != 1:
            raise OptionError(
                "step='theory' is Theorem 1, which is about one component: use n_components=1, without oversample."
            )

    @property
    def memory(self) -> int | None:
        """The memory limit in bytes."""
        return None if self.memory_limit is None else as_bytes(self.memory_limit)

    @property
    def needs_norms(self) -> bool:
        """Whether the norms of all rows have to be read."""
        return self.sampling == "norm" or (self.theory is not None and self.step == "theory" and self.theory.r is None)


@functools.cache
def defaults() -> dict[str, Any]:
    """The defaults of all options."""
    return {field.name: field.default for field in fields(Options)}


@functools.cache
def names() -> tuple[str, ...]:
    """The names of all options."""
    return tuple(defaults())


def refuse_foreign(given: Iterable[str]) -> None:
    """Raise for an option of another library, with what to write here.

    >>> refuse_foreign(["tol", "n_jobs"])
    Traceback (most recent call last):
    TypeError: There is no option 'n_jobs' here: write n_threads=.
    """
    for name in given:
        if name in FOREIGN:
            raise TypeError(f"There is no option {name!r} here: {FOREIGN[name]}.")


def check_k(k: int | float | str | None, shape: tuple[int, int], name: str = "n_components") -> bool:
    """Check the number of components, an option of this name; return whether it is a fraction of the variance."""
    largest = min(shape)
    if k is None:
        return False
    if isinstance(k, str) and k == MLE:
        if shape[0] < shape[1]:
            raise OptionError(
                f"{name}='mle' is only supported if n_samples >= n_features, but X has shape {shape}: "
                "pass a number, or a fraction of the variance."
            )
        return False
    if is_integer(k):
        if not 1 <= k <= largest:
            raise OptionError(
                f"{name}={k} must be between 1 and min(n_samples, n_features)={largest}: X has shape {shape}."
            )
        return False
    if is_real(k) and 0 < k < 1:
        return True
    raise OptionError(f"{name}={shown(k)} must be an integer, a fraction in (0, 1), 'mle' or None.")


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


def check_start(start: Any, d: int, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Return a guess of right singular vectors as rows of this type, or None."""
    if start is None:
        return None
    try:
        rows = np.atleast_2d(np.asarray(start))
    except ValueError:  # rows of different lengths
        rows = np.empty(0, object)
    if rows.dtype.kind not in "fiub" or rows.ndim != 2 or not len(rows) or rows.shape[1] != d:
        found = f"numbers of shape {rows.shape}" if rows.dtype.kind in "fiub" else shown(start)
        raise OptionError(f"start must hold finite rows of length {d}, got {found}.")
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype)
    if not np.isfinite(rows).all():
        raise OptionError(f"start must hold finite rows of length {d}, but NaN or infinity is among them.")
    return rows


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator from anything that scikit-learn takes as `random_state`, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, numbers.Integral):
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4))
