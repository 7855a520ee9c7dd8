"""Nasty matrices: one function per family, and how their numbers are stored, centred, scaled and weighted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

Rng = np.random.Generator
RANKS = (1, 1, 2, 3, 3, 4, 5, 6, 8, 10, 12)  # numbers of components
ROWS, COLUMNS = 1000, 300  # most of them, in most families: the truth takes a tenth of a second then
ENTRIES = 120_000  # most entries: larger draws are cut, so that a case takes well below a second
FORMS = ("C", "C", "F", "csr", "csr", "csr, 64 bit", "csc", "csc, 64 bit")


@dataclass(frozen=True)
class Problem:
    """A matrix, and what is asked about it."""

    family: str
    X: Any
    k: int
    form: str
    center: bool
    scale: bool
    weights: np.ndarray | None

    def describe(self) -> str:
        """One line with all parameters."""
        n, d = self.X.shape
        how = [word for word, on in (("centred", self.center), ("scaled", self.scale)) if on]
        how += [] if self.weights is None else ["weighted"]
        return f"{self.family}, {n} x {d} {self.X.dtype} {self.form}, k={self.k}, {' '.join(how) or 'as it is'}"


def make_problem(family: str, key: list[int]) -> Problem:
    """The problem with this key, which seeds everything."""
    rng = np.random.default_rng(key)
    k = int(rng.choice(RANKS))
    X = np.asarray(FAMILIES[family](rng, k))
    center, scale = bool(rng.random() < 0.5), bool(rng.random() < 0.15)
    weights = _weights(rng, len(X), k) if family == "zero weights" or rng.random() < 0.1 else None
    if X.dtype == np.float64:
        X = _narrowed(rng, X, 0.9 if family == "tall" else 0.5)
    form = str(rng.choice(FORMS))
    return Problem(family, _stored(X, form), min(k, *X.shape), form, center, scale, weights)


def _narrowed(rng: Rng, X: np.ndarray, part: float) -> np.ndarray:
    """X in float32 with this probability, where float32 has its numbers."""
    if rng.random() > part or not 1e-35 < np.abs(X).max() < 1e35:
        return X
    return X.astype(np.float32)


def _stored(X: np.ndarray, form: str) -> Any:
    """X in C or Fortran order, or as a sparse matrix whose indices have 32 or 64 bits."""
    if form in "CF":
        return np.asarray(X, order=form)
    Y = (sp.csr_array if form.startswith("csr") else sp.csc_array)(X)
    if "64" in form:
        Y.indices, Y.indptr = Y.indices.astype(np.int64), Y.indptr.astype(np.int64)
    return Y


def _weights(rng: Rng, n: int, k: int) -> np.ndarray:
    """Weights with zeros: numbers of rows, numbers of all sizes, or all zero but for a few."""
    kind = rng.integers(3)
    if kind == 0:
        weights = rng.poisson(0.7, n).astype(float)
    elif kind == 1:
        weights = np.where(rng.random(n) < 0.3, 0.0, 10.0 ** rng.uniform(-6, 6, n))
    else:
        weights = np.zeros(n)
        weights[rng.permutation(n)[: k + 1]] = 1.0
    weights[rng.integers(n)] += 2.0  # a sum below 2 would mean proportions
    return weights


# ------------------------------------------------------------------------------------------------------- building


def size(rng: Rng, low: int, high: int) -> int:
    """A number of rows or columns; the larger of two draws, since very small matrices are soon known in full."""
    return int(min(high, low * (high / low) ** rng.random(2).max() + 0.5)) if high > low else low


def shape(rng: Rng, k: int, rows: int = ROWS, columns: int = COLUMNS) -> tuple[int, int]:
    """Numbers of rows and columns, more than k."""
    d = size(rng, k + 1, columns)
    return size(rng, k + 1, max(k + 1, min(rows, ENTRIES // d))), d


def orthonormal(rng: Rng, n: int, r: int) -> np.ndarray:
    """Random orthonormal columns whose means are zero where there is room for that."""
    G = rng.standard_normal((n, r))
    return np.linalg.qr(G - G.mean(axis=0) if n > r else G)[0]


def patches(rng: Rng, m: int, r: int) -> np.ndarray:
    """Orthonormal sparse columns: no two of them share a coordinate."""
    owner = rng.permutation(np.append(np.arange(r), rng.integers(0, max(r, m // 20), m - r)))
    Q = np.zeros((m, r))
    owned = np.flatnonzero(owner < r)
    Q[owned, owner[owned]] = rng.choice([-1.0, 1.0], len(owned)) * rng.uniform(0.5, 1.0, len(owned))
    return Q / np.linalg.norm(Q, axis=0)


def with_values(rng: Rng, n: int, d: int, values: np.ndarray) -> np.ndarray:
    """A matrix with these eigenvalues of X^T X, as many as fit: in random directions, in patches, or along the axes."""
    s = np.sqrt(np.asarray(values, float)[: max(1, min(n - 1, d))])
    r, kind = len(s), rng.integers(3)
    if kind == 0:
        return (orthonormal(rng, n, r) * s) @ orthonormal(rng, d, r).T
    if kind == 1:
        return (patches(rng, n, r) * s) @ patches(rng, d, r).T
    X = np.zeros((n, d))  # entries along the axes, in pairs of opposite sign where there is room: exact ties stay exact
    columns, pairs = rng.permutation(d)[:r], n >= 2 * r
    X[np.arange(r), columns] = s
    if pairs:
        X[np.arange(r, 2 * r), columns] = -s
    return X[rng.permutation(n)]


def spectrum(rng: Rng, r: int, k: int) -> np.ndarray:
    """Any spectrum of r eigenvalues, of which the k-th is at the edge."""
    return SPECTRA[str(rng.choice(list(SPECTRA)))](rng, r, k)


def usual(rng: Rng, k: int) -> np.ndarray:
    """A matrix with any spectrum."""
    n, d = shape(rng, k)
    return with_values(rng, n, d, spectrum(rng, min(n, d), k))


# --------------------------------------------------------------------------------------------------------- spectra


def power_law(rng: Rng, r: int, k: int) -> np.ndarray:
    return np.arange(1, r + 1) ** -rng.uniform(0.2, 2.0)


def exponential(rng: Rng, r: int, k: int) -> np.ndarray:
    return np.exp(-rng.choice([0.01, 0.1, 0.5, 2.0]) * np.arange(r))


def clustered(rng: Rng, r: int, k: int) -> np.ndarray:
    """Clusters of three values that differ by 1e-1 to 1e-4 of their size."""
    j = np.arange(r)
    return 0.6 ** (j // 3) * (1 - 10.0 ** -rng.uniform(1, 4) * (j % 3))


def spike(rng: Rng, r: int, k: int) -> np.ndarray:
    """One value above a flat bulk, sometimes only just."""
    values = np.sort(1 + 0.01 * rng.random(r))[::-1].copy()
    values[0] = 1.01 + 10.0 ** rng.uniform(-1.5, 2)
    return values


def gap(rng: Rng, r: int, k: int) -> np.ndarray:
    """A gap after k values."""
    values = np.sort(1 + 0.5 * rng.random(r))[::-1].copy()
    values[k:] *= 10.0 ** -rng.uniform(0.3, 6)
    return values


def ties(rng: Rng, r: int, k: int) -> np.ndarray:
    """Two to 2 k + 3 equal values around the k-th, above a tail."""
    first = int(rng.integers(0, k))
    count = int(rng.integers(2, 2 * k + 4))
    larger = 1 + np.sort(rng.random(first))[::-1] * 10
    tail = (1 - 10.0 ** -rng.uniform(0.1, 4)) * 0.9 ** np.arange(max(0, r - first - count))
    return np.concatenate([larger, np.ones(count), tail])[:r]


def near_ties(rng: Rng, r: int, k: int) -> np.ndarray:
    """Nearly equal values around the k-th: relative differences from 1e-2 to 1e-13."""
    values = ties(rng, r, k)
    return np.sort(values * (1 + 10.0 ** -rng.uniform(2, 13) * rng.random(len(values))))[::-1]


def steps(rng: Rng, r: int, k: int) -> np.ndarray:
    """Each value is repeated k + 2 times."""
    return rng.choice([0.1, 0.5, 0.9]) ** (np.arange(r) // (k + 2))


def huge_value(rng: Rng, r: int, k: int) -> np.ndarray:
    """One to k values far above the others: up to 1e9 times in the entries of the matrix, 1e18 here."""
    values = spike(rng, r, k)
    values[: rng.integers(1, k + 1)] *= 10.0 ** rng.uniform(3, 18)
    return values


def flat(rng: Rng, r: int, k: int) -> np.ndarray:
    return np.ones(r)


SPECTRA: dict[str, Callable[[Rng, int, int], np.ndarray]] = {
    "power law": power_law,
    "exponential": exponential,
    "clustered": clustered,
    "spike": spike,
    "gap": gap,
    "ties": ties,
    "near ties": near_ties,
    "steps": steps,
    "huge value": huge_value,
    "flat": flat,
}


def _of_spectrum(values: Callable[[Rng, int, int], np.ndarray]) -> Callable[[Rng, int], np.ndarray]:
    def make(rng: Rng, k: int) -> np.ndarray:
        n, d = shape(rng, k)
        return with_values(rng, n, d, values(rng, min(n, d), k))

    return make


# -------------------------------------------------------------------------------------------------------- families


def rare_rows(rng: Rng, k: int) -> np.ndarray:
    """One to 3 k outlying rows of equal or similar length, each in a column of its own, beside ordinary rows."""
    return _with_rare_rows(rng, usual(rng, k), k)


def rare_features(rng: Rng, k: int) -> np.ndarray:
    """One to 3 k columns of equal or similar length, each with a few entries in rows of their own."""
    return _with_rare_features(rng, usual(rng, k), k)


def larger(rng: Rng, k: int) -> np.ndarray:
    """So many columns that `auto` does not choose `gram`; rare rows or rare features in two of three."""
    n, d = int(rng.integers(600, 1500)), int(rng.integers(220, 400))
    X = with_values(rng, n, d, spectrum(rng, d, k))
    add = (None, _with_rare_rows, _with_rare_features)[int(rng.integers(3))]
    return X if add is None else add(rng, X, k)


def _with_rare_rows(rng: Rng, X: np.ndarray, k: int) -> np.ndarray:
    return _beside(rng, X, np.diag(_lengths(rng, X, k)))


def _with_rare_features(rng: Rng, X: np.ndarray, k: int) -> np.ndarray:
    entries, lengths = int(rng.integers(2, 5)), _lengths(rng, X, k)
    signs = rng.choice([-1.0, 1.0], (len(lengths) * entries, 1))
    return _beside(rng, X, np.repeat(np.diag(lengths / np.sqrt(entries)), entries, axis=0) * signs)


def _lengths(rng: Rng, X: np.ndarray, k: int) -> np.ndarray:
    """One to 3 k equal or similar lengths, a little or much larger than the largest singular value of X."""
    length = float(np.linalg.norm(X, 2)) * np.sqrt(1 + 10.0 ** rng.uniform(-2, 2))
    return length * (1 + rng.choice([0, 0, 1e-4]) * rng.random(int(rng.integers(1, 3 * k + 2))))


def _beside(rng: Rng, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """X and Y as two blocks on the diagonal, with Y's rows last or anywhere."""
    both = np.zeros((X.shape[0] + Y.shape[0], X.shape[1] + Y.shape[1]))
    both[: len(X), : X.shape[1]] = X
    both[len(X) :, X.shape[1] :] = Y
    return both if rng.random() < 0.5 else both[rng.permutation(len(both))][:, rng.permutation(both.shape[1])]


def graded(rng: Rng, k: int) -> np.ndarray:
    """Rows, columns or singular values from 1e20 down to 1e-20, or over a part of that range."""
    n, d = shape(rng, k)
    low, high = -rng.uniform(1, 20), rng.uniform(1, 20)
    kind = rng.integers(3)
    if kind == 0:
        return rng.standard_normal((n, d)) * np.logspace(high, low, d)
    if kind == 1:
        return rng.standard_normal((n, d)) * rng.permutation(np.logspace(high, low, n))[:, None]
    return with_values(rng, n, d, np.logspace(2 * high, 2 * low, min(n, d)))


def huge_mean(rng: Rng, k: int) -> np.ndarray:
    """Means up to 1e9 times the deviations; up to 1e5 times where the numbers are those of float32."""
    X = usual(rng, k)
    single = rng.random() < 0.5
    means = np.abs(X).max() * 10.0 ** rng.uniform(1, 5 if single else 9) * rng.standard_normal(X.shape[1])
    X = X + means * (rng.random(X.shape[1]) < rng.choice([0.2, 1.0]))
    return X.astype(np.float32) if single else X


def duplicated_rows(rng: Rng, k: int) -> np.ndarray:
    """Few different rows, some of them many times."""
    X = usual(rng, k)
    different = int(rng.integers(1, 3 * k + 2))
    return X[rng.integers(0, min(different, len(X)), len(X))] + 0.0


def low_rank(rng: Rng, k: int) -> np.ndarray:
    """Rank at most k, usually below k."""
    n, d = shape(rng, k)
    return with_values(rng, n, d, 1 + rng.random(int(rng.integers(1, k + 1))))


def as_small_as_k(rng: Rng, k: int) -> np.ndarray:
    """As many rows or columns as components, or one more."""
    least = k + int(rng.integers(0, 2))
    other = size(rng, max(k, 2), COLUMNS)
    n, d = (least, other) if rng.random() < 0.5 else (other, least)
    return with_values(rng, n, d, spectrum(rng, min(n, d), k))


def one_row(rng: Rng, k: int) -> np.ndarray:
    return rng.standard_normal((1, size(rng, 1, COLUMNS)))


def tiny(rng: Rng, k: int) -> np.ndarray:
    """Two to six rows."""
    n, d = int(rng.integers(2, 7)), size(rng, 1, COLUMNS)
    return with_values(rng, n, d, spectrum(rng, min(n, d), k)) + rng.choice([0, 1]) * rng.standard_normal(d)


def one_hot(rng: Rng, k: int) -> np.ndarray:
    """Some categorical columns, each as a group of columns of zeros and ones."""
    n = size(rng, k + 1, ROWS)
    groups = [int(rng.integers(2, 40)) for _ in range(int(rng.integers(1, 6)))]
    parts = []
    for count in groups:
        frequency = rng.dirichlet(np.full(count, rng.choice([0.1, 1.0, 1000.0])))
        parts.append(np.eye(count)[rng.choice(count, n, p=frequency)])
    X = np.hstack(parts)
    return X.astype(rng.choice(["float32", "float64", "uint8", "bool"]))


def block_diagonal(rng: Rng, k: int) -> np.ndarray:
    """Blocks that share neither rows nor columns; all the same, or each of its own size."""
    count = int(rng.integers(2, 2 * k + 3))
    n, d = size(rng, 2, max(3, ROWS // count)), size(rng, 2, max(3, COLUMNS // count))
    same = rng.random() < 0.5
    first = with_values(rng, n, d, spectrum(rng, min(n, d), k))
    blocks = [first if same else first * rng.uniform(0.1, 1) for _ in range(count)]
    return sp.block_diag(blocks).toarray()


def sorted_rows(rng: Rng, k: int) -> np.ndarray:
    """Clusters of rows that come one after the other, or rows sorted by their length."""
    X = usual(rng, k)
    if rng.random() < 0.5:
        X = X * 10.0 ** rng.uniform(-2, 2, (len(X), 1))
        return X[np.argsort(np.linalg.norm(X, axis=1))]
    centres = rng.standard_normal((int(rng.integers(2, k + 4)), X.shape[1])) * np.abs(X).max() * rng.choice([1, 10])
    return X + np.repeat(centres, -(-len(X) // len(centres)), axis=0)[: len(X)]


def integers(rng: Rng, k: int) -> np.ndarray:
    """Counts in any integer type; in the longer types also numbers that float32 does not hold."""
    n, d = shape(rng, k)
    dtype = np.dtype(str(rng.choice(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])))
    X = rng.poisson(10.0 ** rng.uniform(-1, 1.5, d), (n, d))
    if dtype.itemsize >= 4 and rng.random() < 0.5:
        X = X * 1000 + 2**27
    return np.minimum(X, min(np.iinfo(dtype).max, 2**40)).astype(dtype)


def constant_columns(rng: Rng, k: int) -> np.ndarray:
    """Some columns are constant: zero, or not."""
    X = usual(rng, k)
    chosen = rng.random(X.shape[1]) < rng.uniform(0.1, 0.95)
    X[:, chosen] = np.abs(X).max() * rng.choice([0.0, 0.1, 1e4]) * rng.standard_normal(int(chosen.sum()))
    X[:, -1] = rng.standard_normal(len(X))  # at least one column varies
    return X


def noise(rng: Rng, k: int) -> np.ndarray:
    """Independent entries, dense or sparse."""
    X = rng.standard_normal(shape(rng, k))
    X[rng.random(X.shape) > rng.choice([0.02, 0.1, 1.0])] = 0.0
    X[0, 0] = 1.0
    return X


def wide(rng: Rng, k: int) -> np.ndarray:
    n = size(rng, k + 1, 60)
    d = size(rng, 10 * n, 2000)
    return with_values(rng, n, d, spectrum(rng, n, k))


def tall(rng: Rng, k: int) -> np.ndarray:
    d = size(rng, k + 1, 30)
    n = size(rng, 50 * d, 10_000)
    return with_values(rng, n, d, spectrum(rng, d, k)) * np.sqrt(n)


def scales(rng: Rng, k: int) -> np.ndarray:
    """Entries of any size, from 1e-300 to 1e200; a part of them in the range of float32."""
    X = usual(rng, k)
    X = X / np.abs(X).max()
    if rng.random() < 0.5:
        return (X * 10.0 ** rng.uniform(-37, 37)).astype(np.float32)
    return X * 10.0 ** rng.uniform(-300, 200)


FAMILIES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    **{name: _of_spectrum(values) for name, values in SPECTRA.items()},
    "rare rows": rare_rows,
    "rare features": rare_features,
    "larger": larger,
    "graded": graded,
    "huge mean": huge_mean,
    "duplicated rows": duplicated_rows,
    "low rank": low_rank,
    "as small as k": as_small_as_k,
    "one row": one_row,
    "tiny": tiny,
    "zero weights": usual,
    "one-hot": one_hot,
    "block diagonal": block_diagonal,
    "sorted": sorted_rows,
    "integers": integers,
    "constant columns": constant_columns,
    "noise": noise,
    "wide": wide,
    "tall": tall,
    "scales": scales,
}
