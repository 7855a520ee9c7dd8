"""Random inputs for the kernels, kept in a form that both implementations take, and written out in full."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as combinations

import numpy as np
from hypothesis import strategies as st

from helpers import eps, random_orthonormal, summed
from vrpca.kernels import _native as native
from vrpca.kernels import reference

KINDS = ("dense", "csr32", "csr64")
DTYPES = (np.float32, np.float64)
MAPS = list(combinations((False, True), repeat=4))  # col_scale, shift, row_scale, row_shift: there or not
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 33)
COLUMNS = (1, 2, 3, 7, 8, 15, 16, 17, 33, 100)
ROWS = (1, 2, 9, 65, 200)


@dataclass
class Case:
    """A matrix with its row map; `Z` has the rows ``a_i (x_i * s - b_i m)`` in full."""

    X: np.ndarray
    csr: tuple | None
    row_map: tuple
    unit: float

    def rows(self, implementation, late=False):
        if self.csr is None:
            return implementation.dense_rows(self.X, *self.row_map, self.unit, late=late)
        return implementation.csr_rows(*self.csr, self.X.shape[1], *self.row_map, self.unit)

    @property
    def both(self):
        return self.rows(native), self.rows(reference)

    @property
    def shape(self):
        return self.X.shape

    @property
    def dtype(self):
        return self.X.dtype.type

    def _parts(self):
        n, d = self.X.shape
        s, m, a, b = self.row_map
        s = np.ones(d) if s is None else s.astype(float)
        m = np.zeros(d) if m is None else m
        a = np.full((n, 1), self.unit) if a is None else self.unit * a[:, None]
        b = np.ones((n, 1)) if b is None else b[:, None]
        return a, self.X.astype(float) * s, b * m

    @property
    def Z(self):
        a, x, m = self._parts()
        return a * (x - m)

    @property
    def magnitude(self):
        """``|a| (|x * s| + |b m|)``: sparse rows are shifted after they were multiplied, so rounding scales with it."""
        a, x, m = self._parts()
        return np.abs(a) * (np.abs(x) + np.abs(m))


def make_case(rng, n, d, kind="dense", dtype=np.float64, maps=(False,) * 4, density=0.3, unit=None) -> Case:
    """Random case; `unit` is such that the mean squared row norm is 1, unless given."""
    X = rng.standard_normal((n, d)).astype(dtype)
    csr = None
    if kind != "dense":
        X *= rng.random((n, d)) < density
        X[rng.random(n) < 0.2] = 0  # empty rows
        index = np.int32 if kind == "csr32" else np.int64
        i, j = np.nonzero(X)
        csr = (np.searchsorted(i, np.arange(n + 1)).astype(index), j.astype(index), X[i, j])
    has_s, has_m, has_a, has_b = maps
    row_map = (
        rng.uniform(0.5, 2, d).astype(dtype) if has_s else None,
        rng.standard_normal(d) if has_m else None,
        rng.uniform(0.5, 2, n) if has_a else None,
        rng.uniform(-1, 1, n) if has_b else None,
    )
    case = Case(X, csr, row_map, 1.0)
    size = np.linalg.norm(case.Z)
    case.unit = unit if unit is not None else float(np.sqrt(n) / size) if size > 0 else 1.0
    return case


def snapshot(case: Case, width: int, rng):
    """W0 (Ritz vectors of a random subspace, some way towards the solution), U = A W0, P = Z W0, theta; in double."""
    Z = case.Z
    A = Z.T @ Z / case.shape[0]
    W = random_orthonormal(case.shape[1], width, rng)
    W = np.linalg.qr(A @ W + 0.1 * W)[0]
    theta, Y = np.linalg.eigh(W.T @ A @ W)
    W = W @ Y[:, ::-1]
    return W, A @ W, Z @ W, theta[::-1].copy()


def to(dtype, *arrays):
    """C-ordered copies of a dtype."""
    return tuple(np.array(a, dtype=dtype, order="C") for a in arrays)


def draw_order(rng, n, m):
    """m row numbers with replacement."""
    return rng.integers(n, size=m)


def assert_close(actual, expected, bound):
    """Entrywise ``|actual - expected| <= bound``, and everything finite."""
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape
    assert np.isfinite(actual).all()
    excess = np.abs(actual - expected) - bound
    assert (excess <= 0).all(), f"off by {np.abs(actual - expected).max():.3g}, allowed {np.max(bound):.3g}"


def rounding(case: Case) -> float:
    """Rounding of a sum over a row and over the rows, and of the few operations around them."""
    n, d = case.shape
    return 8 * eps(case.dtype) + summed(d, case.dtype) + summed(n, case.dtype)


@st.composite
def cases(draw, rows=ROWS, columns=COLUMNS, kinds=KINDS):
    """Hypothesis strategy: a case of any kind, dtype, map and shape, and a generator for the rest."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    case = make_case(
        rng,
        draw(st.sampled_from(rows)),
        draw(st.sampled_from(columns)),
        draw(st.sampled_from(kinds)),
        draw(st.sampled_from(DTYPES)),
        draw(st.sampled_from(MAPS)),
        draw(st.sampled_from((0.0, 0.05, 0.3, 1.0))),
    )
    return case, rng
