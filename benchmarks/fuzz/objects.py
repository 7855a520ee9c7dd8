"""Bad input in memory: damaged sparse matrices, sources that break their promises, nasty values for options."""

from __future__ import annotations

import decimal
import fractions
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

import vrpca

Rng = np.random.Generator

# ------------------------------------------------------------------------------------------------- sparse matrices


def _entry(part: str, place: int, value: Any) -> Callable[[Any, int], None]:
    """Replace one entry of a part."""

    def change(X: Any, across: int) -> None:
        getattr(X, part)[place] = value(across) if callable(value) else value

    return change


def _whole(part: str, function: Callable[[np.ndarray], Any]) -> Callable[[Any, int], None]:
    """Replace a part."""

    def change(X: Any, across: int) -> None:
        setattr(X, part, function(getattr(X, part)))

    return change


def _doubled(X: Any, across: int) -> None:
    """Store every entry twice."""
    X.data, X.indices = np.repeat(X.data, 2), np.repeat(X.indices, 2)
    X.indptr = 2 * X.indptr


# What happens to the parts of a CSR or CSC matrix; `across` is the number of columns of a CSR matrix.
SPARSE: dict[str, Callable[[Any, int], None]] = {
    "entries are doubled": _doubled,
    "an index is negative": _entry("indices", 3, -1),
    "an index is too large": _entry("indices", 3, lambda across: across),
    "an index is huge": _entry("indices", -1, 2**31 - 1),
    "an index is the least number": _entry("indices", 0, -(2**31)),
    "indptr starts at 1": _entry("indptr", 0, 1),
    "indptr falls": _entry("indptr", 2, 2**30),
    "indptr is negative": _entry("indptr", 2, -5),
    "indptr ends too late": _entry("indptr", -1, 2**20),
    "indptr ends too early": _entry("indptr", -1, 0),
    "indptr is too short": _whole("indptr", lambda a: a[:-1]),
    "indptr is too long": _whole("indptr", lambda a: np.append(a, a[-1])),
    "indptr is empty": _whole("indptr", lambda a: a[:0]),
    "indptr has floats": _whole("indptr", lambda a: a.astype(float)),
    "indptr is a list": _whole("indptr", lambda a: a.tolist()),
    "indptr is None": _whole("indptr", lambda a: None),
    "indptr has strides": _whole("indptr", lambda a: np.repeat(a, 2)[::2]),
    "indices are too short": _whole("indices", lambda a: a[:-1]),
    "indices have floats": _whole("indices", lambda a: a.astype(float)),
    "indices are bytes": _whole("indices", lambda a: a.astype(np.int8)),
    "indices are unsigned": _whole("indices", lambda a: a.astype(np.uint32)),
    "indices have the other byte order": _whole("indices", lambda a: a.astype(">i4")),
    "indices are 2d": _whole("indices", lambda a: a[None]),
    "indices are reversed": _whole("indices", lambda a: a[::-1].copy()),
    "data are too short": _whole("data", lambda a: a[:-1]),
    "data are 2d": _whole("data", lambda a: a[:, None]),
    "data are a list": _whole("data", lambda a: a.tolist()),
    "data are complex": _whole("data", lambda a: a + 1j),
    "data are objects": _whole("data", lambda a: a.astype(object)),
    "data are text": _whole("data", lambda a: a.astype(str)),
    "data are dates": _whole("data", lambda a: a.astype("M8[s]")),
    "data are long doubles": _whole("data", lambda a: a.astype(np.longdouble)),
    "data are half floats": _whole("data", lambda a: a.astype(np.float16)),
    "data are truth values": _whole("data", lambda a: a > 0),
    "data have the other byte order": _whole("data", lambda a: a.astype(">f8")),
    "data have strides": _whole("data", lambda a: np.repeat(a, 2)[::2]),
    "a value is NaN": _entry("data", 2, math.nan),
    "a value is infinite": _entry("data", 2, math.inf),
}


def damaged_sparse(what: str, X: np.ndarray, form: str) -> Any:
    """X as a sparse matrix with one thing wrong; its flags, which scipy keeps, are those of a new matrix."""
    Y = (sp.csr_array if form == "csr" else sp.csc_array)(X)
    SPARSE[what](Y, Y.shape[1] if form == "csr" else Y.shape[0])
    for flag in ("_has_sorted_indices", "_has_canonical_format"):
        Y.__dict__.pop(flag, None)
    return Y


def densified(X: Any) -> np.ndarray | None:
    """A CSR or CSC matrix as an array, entry by entry and with every check; None if it is damaged."""
    try:
        along, across = X.shape if X.format == "csr" else X.shape[::-1]
        data, indices, indptr = (np.asarray(part) for part in (X.data, X.indices, X.indptr))
        out = np.zeros((along, across))
        if not (data.ndim == indices.ndim == indptr.ndim == 1) or data.dtype.kind not in "fiub":
            return None
        if len(indptr) != along + 1 or indptr[0] != 0 or indptr[-1] > min(len(data), len(indices)):
            return None
        for i in range(along):
            if indptr[i + 1] < indptr[i]:
                return None
            for p in range(int(indptr[i]), int(indptr[i + 1])):
                if not 0 <= indices[p] < across:
                    return None
                out[i, int(indices[p])] += data[p]
    except (TypeError, ValueError, IndexError):
        return None
    return out if X.format == "csr" else out.T


def damaged_others(X: np.ndarray) -> dict[str, Any]:
    """Matrices in other sparse formats with one thing wrong."""
    coo, bsr, lil, dia = sp.coo_array(X), sp.bsr_array(X, blocksize=(2, 2)), sp.lil_array(X), sp.dia_array(X)
    n, d = X.shape
    return {
        "coo: a row is negative": _with(coo, "coords", (coo.row - 1, coo.col)),
        "coo: a row is too large": _with(coo, "coords", (coo.row + n, coo.col)),
        "coo: a column is too large": _with(coo, "coords", (coo.row, coo.col + 2**30)),
        "coo: columns are too short": _with(coo, "coords", (coo.row, coo.col[:-3])),
        "coo: rows are floats": _with(coo, "coords", (coo.row + 0.5, coo.col)),
        "coo: data are too short": _with(coo, "data", coo.data[:-3]),
        "coo: NaN": _with(coo, "data", coo.data * np.nan),
        "bsr: indices are too large": _with(bsr, "indices", bsr.indices + d),
        "bsr: indices are negative": _with(bsr, "indices", bsr.indices - d),
        "bsr: indptr ends too late": _with(bsr, "indptr", bsr.indptr * 1000),
        "bsr: data are 1d": _with(bsr, "data", bsr.data.ravel()),
        "bsr: blocks are of another size": _with(bsr, "data", np.zeros((len(bsr.data), 7, 7))),
        "lil: a column is too large": _with_row(lil, [10**6], [1.0]),
        "lil: a column is negative": _with_row(lil, [-(10**6)], [1.0]),
        "lil: more columns than values": _with_row(lil, [0, 1, 2], [1.0]),
        "lil: a value is text": _with_row(lil, [0], ["abc"]),
        "lil: a row is None": _with_row(lil, None, None),
        "dia: offsets are too short": _with(dia, "offsets", dia.offsets[:-1]),
        "dia: data are 1d": _with(dia, "data", dia.data.ravel()),
    }


def _with(X: Any, name: str, value: Any) -> Any:
    """A copy of a matrix with another part."""
    Y = X.copy()
    setattr(Y, name, value)
    return Y


def _with_row(X: Any, columns: Any, values: Any) -> Any:
    """A copy of a LIL matrix with another row."""
    Y = X.copy()
    Y.rows[3], Y.data[3] = columns, values
    return Y


# --------------------------------------------------------------------------------------------------------- sources

BLOCK_ROWS = 16


class OddSource(vrpca.Source):
    """A source that breaks one promise: the one that `what` names, in every pass or in all but the first."""

    def __init__(self, X: np.ndarray, what: str = "", later: bool = False):
        self.X, self.what, self.later, self.passes = X, what, later, 0
        self.shape, self.dtype = X.shape, X.dtype
        if what in ATTRIBUTES:
            name, value = ATTRIBUTES[what]
            setattr(self, name, value(X))

    def blocks(self, rng: Rng | None = None) -> Iterator[tuple[int, Any]]:
        """Yield the blocks, odd ones where it is time for that."""
        self.passes += 1
        good = [(start, self.X[start : start + BLOCK_ROWS]) for start in range(0, len(self.X), BLOCK_ROWS)]
        odd = self.what in BLOCKS and (self.passes > 1 or not self.later)
        yield from BLOCKS[self.what](good) if odd else good

    def transposed(self) -> Any:
        """The transposed matrix as a source, or something else."""
        wrong = {"transposed is None": None, "transposed is not transposed": self, "transposed is an array": self.X.T}
        if self.what in wrong:
            return wrong[self.what]
        return OddSource(np.ascontiguousarray(self.X.T), self.what if self.what in BLOCKS else "", self.later)


ATTRIBUTES: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "shape has three numbers": ("shape", lambda X: (*X.shape, 1)),
    "shape is None": ("shape", lambda X: None),
    "shape is negative": ("shape", lambda X: (-len(X), X.shape[1])),
    "shape has floats": ("shape", lambda X: (float(len(X)), float(X.shape[1]))),
    "shape has more rows": ("shape", lambda X: (len(X) + 1, X.shape[1])),
    "shape has fewer rows": ("shape", lambda X: (len(X) - 1, X.shape[1])),
    "shape has more columns": ("shape", lambda X: (len(X), X.shape[1] + 1)),
    "shape has fewer columns": ("shape", lambda X: (len(X), X.shape[1] - 1)),
    "dtype is None": ("dtype", lambda X: None),
    "dtype is int": ("dtype", lambda X: np.dtype(int)),
    "dtype is complex": ("dtype", lambda X: np.dtype(complex)),
    "dtype is text": ("dtype", lambda X: "float64"),
    "dtype is another": ("dtype", lambda X: np.dtype(np.float32)),
    "says sparse": ("sparse", lambda X: True),
    "the block is text": ("block", lambda X: "abc"),
    "gathers, it says": ("gather_rows", lambda X: 8),
}
TRANSPOSED = ("transposed is None", "transposed is not transposed", "transposed is an array")
Blocks = list[tuple[int, np.ndarray]]


def _each(function: Callable[[np.ndarray], Any]) -> Callable[[Blocks], Any]:
    """Change the second block, or the only one."""

    def change(good: Blocks) -> Any:
        odd = min(1, len(good) - 1)
        return [(start, function(X) if j == odd else X) for j, (start, X) in enumerate(good)]

    return change


BLOCKS: dict[str, Callable[[Blocks], Any]] = {
    "no blocks": lambda good: [],
    "blocks are None": lambda good: [None],
    "not pairs": lambda good: [X for _, X in good],
    "a block is missing": lambda good: good[:-1],
    "a block comes twice": lambda good: [good[0], *good],
    "a block too many": lambda good: [*good, (good[-1][0] + BLOCK_ROWS, good[0][1])],
    "a negative start": lambda good: [(-BLOCK_ROWS, X) if start == 0 else (start, X) for start, X in good],
    "starts are floats": lambda good: [(float(start), X) for start, X in good],
    "starts are None": lambda good: [(None, X) for _, X in good],
    "starts are all 0": lambda good: [(0, X) for _, X in good],
    "rows in another order": lambda good: [(good[len(good) - 1 - j][0], X) for j, (_, X) in enumerate(good)],
    "other rows": lambda good: [(start, np.roll(X, 1, axis=1) * 3) for start, X in good],
    "one other row": _each(lambda X: np.vstack([X[:-1], 50 + X[-1:]])),
    "a column is missing": _each(lambda X: np.ascontiguousarray(X[:, :-1])),
    "a column too many": _each(lambda X: np.hstack([X, X[:, :1]])),
    "a row is missing": _each(lambda X: X[:-1]),
    "a row too many": _each(lambda X: np.vstack([X, X[:1]])),
    "the other float type": _each(lambda X: X.astype("f4" if X.dtype == "f8" else "f8")),
    "whole numbers": _each(lambda X: X.astype(int)),
    "complex": _each(lambda X: X + 1j),
    "objects": _each(lambda X: X.astype(object)),
    "text": _each(lambda X: X.astype(str)),
    "Fortran order": _each(np.asfortranarray),
    "strides": _each(lambda X: np.repeat(X, 2, axis=1)[:, ::2]),
    "the other byte order": _each(lambda X: X.astype(X.dtype.newbyteorder())),
    "a list": _each(lambda X: X.tolist()),
    "one dimension": _each(lambda X: X.ravel()),
    "a CSR matrix": _each(sp.csr_array),
    "NaN": _each(lambda X: X * np.nan),
    "infinity": _each(lambda X: X + np.inf),
}
SOURCES = (*ATTRIBUTES, *TRANSPOSED, *BLOCKS)
LATER = ("other rows", "one other row")  # these are wrong only if they come in later passes

# --------------------------------------------------------------------------------------------------------- options

NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 2**31, 2**63, 10**30, -(10**30)),
    *(0.0, -0.0, 0.5, 1.5, -0.5, 1e-320, 1e308, math.nan, math.inf, -math.inf),
    *("", "abc", "1", "auto", "AUTO", "vr\0", b"auto", 1 + 2j, [], [1, 2], (), {}, {"a": 1}, {1, 2}, object()),
    *(np.float64(math.nan), np.float32(0.5), np.int64(-5), np.int8(3), np.bool_(True), np.array(0.5), np.array([1, 2])),
    *(np.array([]), np.array("auto"), np.datetime64("2020-01-01"), np.timedelta64(5, "s"), np.zeros((2, 2))),
    *(fractions.Fraction(1, 2), decimal.Decimal("0.5"), range(3), lambda *_: None, np.ma.masked, ...),
)


def real(value: Any) -> bool:
    """Whether a value is a real number, as a scalar, and not NaN."""
    kinds, others = (numbers.Real, decimal.Decimal), (bool, np.bool_, np.timedelta64)
    return isinstance(value, kinds) and not isinstance(value, others) and value == value


def whole(value: Any) -> bool:
    """Whether a value is a whole number, as a scalar."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def truth_value(value: Any) -> bool:
    """Whether a value is true or false, or the number 0 or 1."""
    return isinstance(value, bool | np.bool_) or (isinstance(value, int | float | np.number) and value in (0, 1))


def one_of(*names: str) -> Callable[[Any], bool]:
    """Whether a value is one of these."""
    return lambda value: _among(value, names)


def _among(value: Any, names: tuple[str, ...]) -> bool:
    text = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return isinstance(text, str) and text in names


def optional(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """None, or what the rule allows."""
    return lambda value: value is None or rule(value)


def _weight(value: Any) -> bool:
    """A positive number may stand for equal weights."""
    return truth_value(value) or (np.ndim(value) == 0 and real(np.asarray(value).item()) and value > 0)


# What may be accepted. Anything else has to be refused. `COUNTS` has the rules for numbers of components.
RULES: dict[str, Callable[[Any], bool]] = {
    "solver": one_of("auto", "vr", "oja", "power", "hybrid", "krylov", "accelerated", "gram"),
    "cost": one_of("auto", "time", "passes"),
    "certificate": one_of("estimated", "probabilistic"),
    "sampling": one_of("uniform", "norm"),
    "control": optional(one_of("difference", "projection")),
    "tol": lambda v: real(v) and v >= 0,
    "max_passes": lambda v: real(v) and v >= 1,
    "max_seconds": optional(lambda v: real(v) and v > 0),
    "failure_probability": lambda v: real(v) and 0 < v < 1,
    "oversample": optional(lambda v: whole(v) and v >= 0),
    "epoch_length": optional(lambda v: whole(v) and v >= 1),
    "n_threads": optional(lambda v: whole(v) and (v >= 1 or v == -1)),
    "restarts": lambda v: whole(v) and v >= 1,
    "step": lambda v: _among(v, ("auto", "paper", "theory")) or (real(v) and 0 < v < math.inf),
    "theory": optional(lambda v: isinstance(v, vrpca.Theory)),
    "random_state": optional(lambda v: truth_value(v) or (whole(v) and v >= 0)),
    "callback": optional(callable),
    **dict.fromkeys(("center", "scale", "whiten", "deflate", "warm_start", "compute_u"), truth_value),
    "verbose": lambda v: truth_value(v) or whole(v),  # a number of any size is usual for it
    "start": lambda v: v is None,
    "sample_weight": optional(_weight),
    "count": lambda v: whole(v) and v >= 1,
    "count or fraction": optional(lambda v: (whole(v) and v >= 1) or (real(v) and 0 < v < 1)),
}
COUNTS = {"pca": "count or fraction", "PCA": "count or fraction", "svd": "count", "TruncatedSVD": "count"}
ENDLESS = ("restarts",)  # large numbers of these ask for endless work, and get it
