"""The first pass: means and variances in one reading, against two in double precision; entries that are not finite."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import Blocks
from hypothesis import given, settings
from hypothesis import strategies as st

import vrpca
from helpers import eps, sparse_matrix
from vrpca.data import gram
from vrpca.data.first_pass import FirstPass, FirstProductSum, LargestEntry, Moments, Pair, column_moments, first_unit
from vrpca.data.gram import HEAD_ROWS, GramSum, Matrix
from vrpca.data.open import as_source
from vrpca.data.stream import Basis, StreamSum
from vrpca.data.view import Problem, View
from vrpca.errors import DataError

pytestmark = pytest.mark.reference


def two_pass(X, weights=None):
    X = np.asarray(X, float)
    w = np.ones(len(X)) if weights is None else weights
    mean = w @ X / w.sum()
    return w.sum(), mean, w @ (X - mean) ** 2 / w.sum()


def check(source, X, weights=None, rtol=1e-12, slack=1e-10):
    """The moments of `factor` times X; `slack` is relative to the mean square."""
    found = column_moments(source, weights, 2)
    scaled = np.asarray(X, float) * found.factor
    total, mean, variance = two_pass(scaled, weights)
    size = np.abs(scaled).max(0)
    assert found.total == pytest.approx(total, rel=1e-14)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-13, atol=4 * eps(float) * size.max())
    assert (np.abs(found.variance - variance) <= rtol * variance + slack * eps(float) * size**2).all()
    np.testing.assert_allclose(found.second, variance + mean**2, rtol=1e-11)
    about_zero = column_moments(source, weights, 2, about_zero=True)
    assert about_zero.total == pytest.approx(total, rel=1e-14)
    assert about_zero.factor == found.factor and not about_zero.mean.any()
    np.testing.assert_allclose(about_zero.second, variance + mean**2, rtol=1e-12)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [0, 1e4, 1e6])
@pytest.mark.parametrize("kind", ["C", "F", "csr", "csc"])
def test_a_large_mean_does_not_drown_the_variance(kind, mean, dtype, rng):
    X = (mean + rng.standard_normal((500, 4))).astype(dtype)
    given_ = {"C": X, "F": np.asfortranarray(X), "csr": sp.csr_array(X), "csc": sp.csc_array(X)}[kind]
    check(as_source(given_), X, rtol=1e-10)


def test_faiss_773(rng):
    """Large means in float32: the covariance [[10001, 10000], [10000, 10001]] of a peer's bug report."""
    X = (100 + rng.standard_normal((2000, 2))).astype(np.float32)
    found = check(as_source(X), X)
    assert (found.variance < 1.2).all()


@pytest.mark.parametrize("value", [1.0, 0.1, 1e8, 1 / 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_columns_have_no_variance(value, dtype, rng):
    """Also where the constant is stored in every row of a sparse matrix (sk 19766)."""
    X = np.column_stack([np.full(300, value), rng.standard_normal(300)]).astype(dtype)
    for given_ in (X, np.asfortranarray(X), sp.csr_array(X), sp.csc_array(X)):
        found = check(as_source(given_), X)
        assert found.variance[0] <= (4 * eps(float) * value) ** 2
        assert found.mean[0] == pytest.approx(float(dtype(value)), rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_columns_that_are_constant_where_they_are_stored(fmt, dtype, rng):
    X = np.where(rng.random((300, 3)) < [0.01, 0.5, 0.99], 7.5, 0).astype(dtype)
    check(as_source(sp.csr_array(X).asformat(fmt)), X)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.integers(1, 6),
    st.sampled_from(("C", "F", "csr", "csc", "i2", "f4")),
    st.sampled_from((None, "random", "zeros")),
    st.integers(1, 4),
)
def test_moments_of_any_matrix(seed, n, d, kind, weighting, pieces):
    rng = np.random.default_rng(seed)
    X = 3 + 10 * sparse_matrix(n, d, 0.6, rng)
    X = X.astype("i2") if kind == "i2" else X.astype("f4") if kind == "f4" else X
    weights = None if weighting is None else rng.uniform(0.1, 5, n)
    if weighting == "zeros":
        weights *= rng.random(n) < 0.5
        weights[rng.integers(n)] = 1
    given_ = {"F": np.asfortranarray(X), "csr": sp.csr_array(X), "csc": sp.csc_array(X)}.get(kind, X)
    check(as_source(given_), X, weights, slack=4)
    if kind in ("C", "csr"):
        cuts = np.linspace(0, n, pieces + 1).astype(int)
        parts = [given_[a:b] for a, b in pairwise(cuts) if b > a]
        check(Blocks(*parts), X, weights, slack=4)


def test_weights_are_counts(rng):
    X, counts = rng.standard_normal((20, 3)), rng.integers(0, 4, 20)
    weighted = column_moments(as_source(X), counts.astype(float), 1)
    repeated = column_moments(as_source(np.repeat(X, counts, axis=0)), None, 1)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-13)
    np.testing.assert_allclose(weighted.variance, repeated.variance, rtol=1e-13)
    assert weighted.total == repeated.total


def test_blocks_without_weight_do_not_count(rng):
    X = rng.standard_normal((30, 3))
    weights = np.r_[np.zeros(10), np.ones(10), np.zeros(10)]
    check(Blocks(X[:10], X[10:20], X[20:]), X, weights, slack=4)


@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_a_weightless_outlier_in_the_first_row_costs_no_accuracy(fmt, rng):
    X = rng.standard_normal((100, 3))
    X[0] = 1e9
    weights = np.r_[0.0, np.ones(99)]
    found = column_moments(as_source(X if fmt == "dense" else sp.csr_array(X)), weights, 1)
    _, mean, variance = two_pass(X[1:])
    np.testing.assert_allclose(found.mean, mean, atol=1e-13)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-10)


@pytest.mark.parametrize("fmt", ["dense", "csr"])
@pytest.mark.parametrize("heavy", [0, 50, 127])
@pytest.mark.parametrize("weight", [1e-11, 1e-20])
def test_one_row_may_have_almost_all_weight(weight, heavy, fmt, rng):
    """The deviations of the others from it count, however little weight they have."""
    X, weights = rng.standard_normal((128, 3)), np.full(128, weight)
    weights[heavy] = 1.0
    found = column_moments(as_source(X if fmt == "dense" else sp.csr_array(X)), weights, 1)
    exact = weights @ (X - X[heavy]) ** 2 / weights.sum()  # the mean is next to that row
    np.testing.assert_allclose(found.variance, exact, rtol=1e-8)
    model = vrpca.pca(X, 3, solver="gram", tol=1e-8, random_state=0, compute_u=False, sample_weight=weights)
    Z = (X - X[heavy]) * np.sqrt(weights)[:, None]
    np.testing.assert_allclose(model.s, np.linalg.svd(Z, compute_uv=False) / np.sqrt(weights.sum() / 128), rtol=1e-6)


@pytest.mark.parametrize(("fmt", "about_zero"), [("dense", False), ("dense", True), ("csr", False)])
@pytest.mark.parametrize("size", [1e-200, 1e200, 1e300])
def test_rows_without_weight_do_not_set_the_scale(size, about_zero, fmt, rng):
    """Relative to them, all that counts may be too small to be squared, or too large."""
    X = rng.standard_normal((60, 3))
    X[[0, 1, 30]] *= size
    weights = np.ones(60)
    weights[[0, 1, 30]] = 0
    parts = (X[:20], X[20:40], X[40:])
    source = Blocks(*(map(sp.csr_array, parts) if fmt == "csr" else parts))
    found = column_moments(source, weights, 1, about_zero=about_zero)
    _, mean, variance = two_pass(X[weights > 0])
    np.testing.assert_allclose(found.second / found.factor**2, variance + mean**2, rtol=1e-12)
    assert found.passes == source.readings


def test_one_row():
    found = column_moments(as_source(np.array([[3.0, -4.0]])), None, 1)
    assert found.total == 1 and found.factor == 1
    np.testing.assert_array_equal(found.mean, [3, -4])
    np.testing.assert_array_equal(found.variance, [0, 0])
    np.testing.assert_array_equal(found.second, [9, 16])


def test_zeros_have_zero_moments():
    for X in (np.zeros((5, 2)), sp.csr_array((5, 2)), sp.csc_array((5, 2))):
        found = column_moments(as_source(X), None, 1)
        assert found.total == 5 and not found.mean.any() and not found.variance.any()


# --------------------------------------------------------------------------------------------------------------- scales


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-61, 1e61, 1e150, 1e300])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_neither_overflow_nor_underflow(fmt, scale, rng):
    X = (2 + rng.standard_normal((50, 3))) * scale
    found = check(as_source(X if fmt == "dense" else sp.csr_array(X)), X)
    assert np.log2(found.factor) % 1 == 0  # scaling is exact
    assert (found.variance > 1e-3).all() and (found.variance < 1e3).all()


LATER = [1e-200, 1e-150, 1.0, 1e150, 1e200]


@pytest.mark.parametrize(
    ("first", "later"), [(f, b) for f in (0.0, 1e-200) for b in LATER] + [(1.0, b) for b in LATER if b >= 1]
)
@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_the_first_block_does_not_decide_the_scale(fmt, first, later, rng):
    blocks = [first * rng.standard_normal((9, 2))] + [later * rng.standard_normal((9, 2)) for _ in range(2)]
    X = np.vstack(blocks)
    source = Blocks(*blocks) if fmt == "dense" else Blocks(*map(sp.csr_array, blocks))
    found = check(source, X, slack=4)
    assert found.variance.min() > 0 and np.isfinite(found.variance).all()


def test_ordinary_data_are_read_once(rng):
    source = Blocks(*rng.standard_normal((4, 10, 3)))
    assert column_moments(source, None, 1).passes == source.readings == 1


def test_every_reading_is_counted(rng):
    source = Blocks(1e-200 * rng.standard_normal((9, 2)), 1e-130 * rng.standard_normal((9, 2)))
    found = column_moments(source, None, 1)
    assert found.passes == source.readings


@pytest.mark.parametrize("value", [1e-30, 1e30])
def test_float32_data_whose_squares_leave_float32(value, rng):
    X = (value * (1 + rng.standard_normal((50, 3)))).astype(np.float32)
    check(as_source(X), X)


# ----------------------------------------------------------------------------------------------------------- not finite


@pytest.mark.parametrize(("bad", "says"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("row", [0, 9, 10, 15, 29])
@pytest.mark.parametrize("column", [0, 3])
@pytest.mark.parametrize("about_zero", [False, True])
@pytest.mark.parametrize("kind", ["whole", "dense blocks", "csr", "csr blocks", "csc", "F", "f4", "f2"])
def test_entries_that_are_not_finite_are_named(kind, about_zero, row, column, bad, says, rng):
    X = sparse_matrix(30, 4, 0.5, rng)
    X[row, column] = bad
    parts = (X[:10], X[10:20], X[20:])
    source = {
        "whole": lambda: as_source(X),
        "dense blocks": lambda: Blocks(*parts),
        "csr": lambda: as_source(sp.csr_array(X)),
        "csr blocks": lambda: Blocks(*map(sp.csr_array, parts)),
        "csc": lambda: as_source(sp.csc_array(X)),
        "F": lambda: as_source(np.asfortranarray(X)),
        "f4": lambda: as_source(X.astype("f4")),
        "f2": lambda: as_source(X.astype("f2")),
    }[kind]()
    with pytest.raises(DataError, match=rf"{says} \(row {row}, column {column}\)"):
        column_moments(source, None, 2, about_zero=about_zero)


def test_the_first_of_several_is_named(rng):
    X = rng.standard_normal((30, 4))
    X[[25, 12], [0, 3]] = np.nan, np.inf
    with pytest.raises(DataError, match=r"row 12, column 3"):
        column_moments(as_source(X), None, 1)


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("about_zero", [False, True])
@pytest.mark.parametrize("fmt", ["dense", "csr"])
def test_not_finite_in_a_weighted_row(fmt, about_zero, weight, rng):
    """Weight zero is no excuse: the products would still meet the entry (0 * NaN = NaN)."""
    X, weights = rng.standard_normal((10, 3)), np.ones(10)
    X[4, 1], weights[4] = np.nan, weight
    with pytest.raises(DataError, match=r"row 4, column 1"):
        column_moments(as_source(X if fmt == "dense" else sp.csr_array(X)), weights, 1, about_zero=about_zero)


# ------------------------------------------------------------------------------------------------ what is found besides


def as_they_are(source):
    """The problem of data that are neither centred nor scaled."""
    return Problem(source, None, False, False, 1)


def received(problem, accumulator=None):
    """The first pass as a view receives it."""
    first_pass = problem.first_pass(accumulator)
    assert first_pass.found is None
    return View.of(problem, first_pass.moments).receive(first_pass)


def test_a_finding_comes_with_the_moments_in_one_reading(rng):
    source = Blocks(*rng.standard_normal((4, 10, 3)))
    problem = as_they_are(source)
    found = received(problem, GramSum(problem))
    assert isinstance(found.found, Matrix) and found.sums is None and found.moments.passes == source.readings == 1
    assert received(problem).found is None


def accumulators(problem):
    """All that find the moments in ways of their own."""
    d = problem.source.shape[1]
    W, guest = np.eye(d, dtype=problem.source.dtype)[:, :2].copy(), np.eye(d, dtype=problem.source.dtype)[2]
    return [GramSum(problem), GramSum(problem, in_double=True), FirstProductSum(problem, W, None, 0, guest)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cut", [0, 700, 1500])
@pytest.mark.parametrize("weighted", ["no", "some", "none of the first"])
@pytest.mark.parametrize("center", [False, True])
def test_moments_are_the_same_whatever_comes_with_them(center, weighted, cut, dtype, rng):
    """The product has them from its own walk, A from its diagonal, after rows that tell how to begin."""
    X = (rng.standard_normal((4000, 9)) * np.arange(1, 10) + 3).astype(dtype)
    weights = None if weighted == "no" else rng.integers(0, 3, 4000) + 0.0
    if weighted == "none of the first":
        weights[:1200] = 0
    problem = Problem(Blocks(*(block for block in np.split(X, [cut]) if len(block))), weights, center, False, 2)
    w = np.ones(4000) if weights is None else weights
    mean = np.average(X.astype(float), axis=0, weights=w) if center else np.zeros(9)
    variance = w @ (X.astype(float) - mean) ** 2 / w.sum()
    for accumulator in accumulators(problem):
        moments = problem.first_pass(accumulator).moments
        assert moments.total == pytest.approx(w.sum(), rel=1e-13) and moments.passes == 1
        np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(moments.variance, variance, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "a constant column", "first rows of little weight"])
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_moments_from_the_sums_of_gram_are_as_accurate_as_others(center, means, kind, dtype, rng):
    """They are taken about the mean of the first rows. Where later rows are far from it, they are found otherwise."""
    X, weights = rng.standard_normal((5000, 7)) + 3, None
    if kind == "a constant column":
        X[:, 2] = 1 / 3
    elif kind == "first rows of little weight":
        weights = np.where(np.arange(5000) < HEAD_ROWS, 1e-15, 1.0)
        X[HEAD_ROWS:, 3] += 1e5
    X = X.astype(dtype)
    problem = Problem(as_source(X), weights, center, False, 2, means)
    for accumulator in (GramSum(problem), GramSum(problem, in_double=True)):
        found = problem.first_pass(accumulator).moments
        total, mean, variance = two_pass(X, weights)
        assert found.total == pytest.approx(total, rel=1e-14)
        np.testing.assert_allclose(found.second, variance + mean**2, rtol=1e-12)
        if center or means:
            np.testing.assert_allclose(found.mean, mean, rtol=1e-13)
            np.testing.assert_allclose(found.variance, variance, rtol=1e-11, atol=1e-28)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_row_without_weight_does_not_copy_the_others(kind, rng):
    X, weights = np.ones((40000, 100), np.float32), np.ones(40000)
    weights[7] = 0
    X = X if kind == "dense" else sp.csr_array(X)
    tracemalloc.start()
    assert first_unit(X, np.sqrt(weights)) == 1
    assert tracemalloc.get_traced_memory()[1] < 40000 * 100
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("weightless", [0, 299])
def test_empty_rows_do_not_set_the_unit(weightless, kind, rng):
    """Nor do rows without weight. What tells how large numbers are is the first entries of rows that count."""
    X = np.vstack([np.zeros((300, 300)), rng.standard_normal((500, 300)) * 1e-30]).astype(np.float32)
    root = np.ones(800)
    root[weightless] = 0
    if kind == "csr":
        assert 2.0**96 < first_unit(sp.csr_array(X), root) < 2.0**101
    else:  # zeros are entries
        assert 2.0**96 < first_unit(X[290:], root[290:]) < 2.0**101


@pytest.mark.parametrize("row", [0, 1023, 1024, 3999])
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("kind", "narrow"), [("dense", gram.NARROW), ("dense", 0), ("csr", gram.NARROW)])
def test_no_accumulator_overlooks_what_is_not_finite(kind, narrow, value, weight, row, rng, monkeypatch):
    """A of dense rows is summed up by our kernel or, if there are more columns than that is for, by BLAS."""
    monkeypatch.setattr(gram, "NARROW", narrow)
    X = rng.standard_normal((4000, 60))
    if kind == "csr":
        X *= rng.random(X.shape) < 0.05
    X[row, 4] = value
    weights = np.ones(4000)
    weights[row] = weight
    blocks = [X] if kind == "dense" else [sp.csr_array(part) for part in np.split(X, 4)]
    problem = Problem(Blocks(*blocks), weights, False, False, 1)
    for accumulator in accumulators(problem):
        with pytest.raises(DataError, match=f"row {row}, column 4"):
            problem.first_pass(accumulator)


@pytest.mark.parametrize("sizes", [(1e-200, 1.0), (1.0, 1e200)])
def test_a_finding_is_dropped_where_the_data_have_to_be_read_again(sizes, rng):
    """Its numbers are as bad as the moments were."""
    source = Blocks(*(size * rng.standard_normal((10, 3)) for size in sizes))
    problem = as_they_are(source)
    found = received(problem, GramSum(problem))
    assert found.found is None and found.moments.passes == source.readings == 3


def test_rows_that_prepared_the_pass_are_counted(rng):
    for size in (1.0, 1e200):  # read once, and read again
        source = Blocks(rng.standard_normal((10, 3)), size * rng.standard_normal((10, 3)))
        problem = as_they_are(source)
        accumulator = FirstProductSum(problem, np.eye(3)[:, :1].copy(), None, 7, np.eye(3)[1])
        assert received(problem, accumulator).rows_sampled == 7


def test_accumulators_choose_the_order_of_the_blocks(rng):
    """Those with a generator see blocks at random, the others in order."""
    starts, problem = {}, as_they_are(Blocks(*np.ones((20, 5, 3))))
    for name, accumulator in (("stream", StreamSum(problem, 2, rng)), ("gram", GramSum(problem))):
        seen = starts.setdefault(name, [])
        add = accumulator.add
        accumulator.add = lambda start, X, add=add, seen=seen: (seen.append(start), add(start, X))
        problem.first_pass(accumulator)
    assert starts["gram"] == list(range(0, 100, 5)) == sorted(starts["stream"]) != starts["stream"]


def test_another_start_is_independent_of_what_was_found_at_random():
    moments = Moments(3.0, np.zeros(2), np.ones(2), 1.0)
    exact = FirstPass(moments, Matrix(np.eye(2) / 2, in_double=True), 4)
    assert exact.without_start() is exact
    for found in (Basis(np.eye(2)), Pair(np.eye(2), np.eye(2), np.eye(2)[0], np.eye(2)[0])):
        again = FirstPass(moments, found, 4).without_start()
        assert again.found is None and again.moments is moments and again.rows_sampled == 4
    nothing = FirstPass(moments)
    assert nothing.without_start() is nothing


def test_the_largest_entry(rng):
    X = rng.standard_normal((50, 4))
    X[31, 2] = -7
    for source in (Blocks(X[:20], X[20:]), Blocks(sp.csr_array(X[:20]), sp.csr_array(X[20:]))):
        assert source.reduce(LargestEntry()).result() == 7
        counts = (np.arange(50) != 31).astype(float)
        assert source.reduce(LargestEntry(counts)).result() == np.abs(np.delete(X, 31, axis=0)).max()


@pytest.mark.parametrize("solver", ["vr", "gram", "accelerated"])
@pytest.mark.parametrize("size", [1e-200, 1e-170, 1e150])
def test_columns_are_scaled_whatever_their_size_is(size, solver, rng):
    X = rng.standard_normal((60, 12))
    options = {"scale": True, "solver": solver, "tol": 1e-8, "random_state": 0}
    np.testing.assert_allclose(vrpca.pca(size * X, 2, **options).s, vrpca.pca(X, 2, **options).s, rtol=1e-6)
