"""The contract of a source: what a subclass has to bring, what it is given, and that solvers need no more."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import Blocks, check_blocks, in_blocks
from hypothesis import given
from hypothesis import strategies as st

import vrpca
from helpers import sine
from vrpca.check import check
from vrpca.data.checked import CheckedSource
from vrpca.data.first_pass import column_moments
from vrpca.data.open import as_source
from vrpca.data.source import PIECE_BYTES, Source, pieces, walk
from vrpca.data.view import Problem, View
from vrpca.errors import DataError, DataTypeError

pytestmark = pytest.mark.reference


class Minimal(vrpca.Source):
    """As little as a source can be: a shape, a type, blocks in any order, and the transposed source."""

    def __init__(self, X, rows=50):
        self.X, self.rows, self.shape, self.dtype, self.sparse = X, rows, X.shape, X.dtype, sp.issparse(X)

    def blocks(self, rng=None):
        for piece in walk(self.shape[0], self.rows, rng):
            yield piece.start, self.X[piece]

    def transposed(self):
        return Minimal(sp.csr_array(self.X.T) if sp.issparse(self.X) else np.ascontiguousarray(self.X.T), self.rows)


class Gathering(Minimal):
    """One that can gather rows as well; it notes the numbers."""

    def __init__(self, X, rows=50):
        super().__init__(X, rows)
        self.gather_rows, self.gathered = 20, []

    def gather(self, numbers):
        self.gathered.append(numbers)
        return self.X[numbers]


def some_data(n=400, d=30):
    """Three directions that stand out of the noise, and a mean."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((n, 3)) * [9, 6, 4] @ rng.standard_normal((3, d)) + rng.standard_normal((n, d)) + 2


# ------------------------------------------------------------------------------------------------------ user's sources


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"solver": "gram"},
        {"solver": "power"},
        {"solver": "krylov"},
        {"solver": "accelerated"},
        {"solver": "accelerated", "cost": "passes"},
        {"solver": "vr"},
        {"solver": "vr", "sampling": "norm"},
        {"solver": "hybrid"},
        {"solver": "vr", "deflate": True},
        {"certificate": "probabilistic"},
    ],
    ids=lambda options: " ".join(map(str, options.values())) or "defaults",
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "gathering", "wide"])
def test_a_minimal_source_is_enough_for_every_solver(kind, options):
    X = some_data(30, 400) if kind == "wide" else some_data()
    if kind == "sparse":
        X *= np.random.default_rng(0).random(X.shape) < 0.3
    source = Gathering(X) if kind == "gathering" else Minimal(sp.csr_array(X) if kind == "sparse" else X)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X))
    options = options | {"tol": 1e-9, "max_passes": 3000, "random_state": 0, "sample_weight": weights}
    found = vrpca.pca(source, 2, **options)
    Z = np.sqrt(weights)[:, None] * (X - np.average(X, axis=0, weights=weights))
    U, s, Vt = np.linalg.svd(Z, full_matrices=False)
    assert found.converged
    np.testing.assert_allclose(found.s, s[:2], rtol=1e-8)
    assert sine(found.Vt.T, Vt[:2].T) < 1e-3 and sine(found.U, U[:, :2]) < 1e-3
    if kind == "gathering" and options.get("solver") == "vr":
        assert source.gathered and all((np.diff(numbers) > 0).all() for numbers in source.gathered)


def test_a_minimal_source_is_enough_for_estimators_and_checks():
    X = some_data()
    model = vrpca.PCA(3, random_state=0).fit(Minimal(X))
    plain = vrpca.PCA(3, random_state=0).fit(X)
    assert model.n_features_in_ == 30
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-6)
    np.testing.assert_allclose(model.transform(Minimal(X)), plain.transform(X), atol=1e-4)
    assert check(model, Minimal(X)).ok
    fraction = vrpca.pca(Minimal(X), 0.9, random_state=0)
    assert len(fraction.s) == len(vrpca.pca(X, 0.9, random_state=0).s)


@pytest.mark.parametrize("rows", [1, 7, 50, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_size_of_blocks_does_not_matter(rows, dtype):
    X = some_data().astype(dtype)
    source = Minimal(X, rows)
    check_blocks(source, X)
    found = vrpca.svd(source, 2, solver="krylov", tol=1e-6, random_state=0)
    np.testing.assert_allclose(found.s, np.linalg.svd(X.astype(float), compute_uv=False)[:2], rtol=1e-5)
    assert found.Vt.dtype == dtype


def test_what_is_not_given_has_a_default():
    source = Minimal(np.ones((20, 6)))
    assert not source.sparse and source.block is None and not source.slow_to_read
    assert source.columnwise is None and source.wide_at == 1 and source.gather_rows == 0 and source.neighbours == 1
    assert source.entries == 120
    assert source.without_empty_columns(np.inf) == (source, None)
    with pytest.raises(TypeError, match="Minimal cannot gather rows: gather_rows is 0"):
        source.gather(np.arange(3))


@pytest.mark.parametrize("missing", ["blocks", "transposed"])
def test_what_has_to_be_given(missing):
    members = {name: member for name, member in vars(Minimal).items() if name in ("__init__", "blocks", "transposed")}
    del members[missing]
    incomplete = type("Incomplete", (Source,), members)
    with pytest.raises(TypeError, match=missing):
        incomplete(np.ones((3, 2)))


def test_a_source_is_its_own_source():
    """One that a user has written is checked, once."""
    checked = as_source(Minimal(np.ones((3, 2))))
    assert isinstance(checked, CheckedSource)
    for source in (as_source(np.ones((3, 2))), checked):
        assert as_source(source) is source


class Duck:
    """What looks like a source, but is not derived from it."""

    shape, dtype = (400, 30), np.dtype(float)

    def blocks(self, rng=None):
        yield 0, some_data()

    def transposed(self):
        return self


def test_what_only_looks_like_a_source_is_told_so():
    """It would lack the members that have defaults."""
    for call in (lambda X: vrpca.pca(X, 2), vrpca.PCA(2).fit, as_source):
        with pytest.raises(DataTypeError, match=r"X is a Duck.* derive Duck from vrpca\.Source"):
            call(Duck())


@pytest.mark.parametrize("solver", ["gram", "vr", "accelerated"])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda X: [X[:100], X[200:]], "400 rows, but its blocks have 300"),
        (lambda X: [], "400 rows, but its blocks have 0"),
        (lambda X: [X[:300], X[200:]], r"400 rows, but Wrong\.blocks yielded rows 300 to 499"),
        (
            lambda X: [X[:300, :20].copy(), X[300:, :20].copy()],
            r"30 features, but a block of Wrong has shape \(300, 20\)",
        ),
        (lambda X: [X[:300], np.hstack([X, X])[300:]], r"30 features, but a block of Wrong has shape \(100, 60\)"),
    ],
)
def test_blocks_that_are_not_the_rows_are_noticed(parts, message, solver):
    """An answer for other rows than those of the source would look like any other."""

    class Wrong(Minimal):
        def blocks(self, rng=None):
            blocks = parts(self.X)
            yield from zip(itertools.accumulate((len(X) for X in blocks), initial=0), blocks, strict=False)

    with pytest.raises(DataError, match=message):
        vrpca.svd(Wrong(some_data()), 2, solver=solver, random_state=0)


# ------------------------------------------------------------------------------------------------------------ readings


class Noting:
    """An accumulator that notes what it is given."""

    def __init__(self):
        self.seen = []

    def add(self, start, X):
        self.seen.append((start, X.shape[0]))

    def merge(self, other):
        self.seen += other.seen

    def result(self):
        return self.seen


def test_a_reduction_goes_through_all_blocks_once():
    """In order; or in the order that the generator gives."""
    source, accumulator = Minimal(some_data(), 30), Noting()
    assert source.reduce(accumulator) is accumulator
    in_order = [(start, min(30, 400 - start)) for start in range(0, 400, 30)]
    assert accumulator.result() == in_order
    orders = [source.reduce(Noting(), np.random.default_rng(seed)).result() for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == in_order != orders[0]
    assert orders[0] == [(start, X.shape[0]) for start, X in source.blocks(np.random.default_rng(0))]


def test_the_first_pass_is_one_pass_and_every_pass_is_counted():
    X = some_data()
    source = in_blocks(X, 64)
    first = Problem(source, None, True, False, 1).first_pass()
    assert source.readings == first.moments.passes == 1
    np.testing.assert_allclose(first.moments.data_mean, X.mean(axis=0), rtol=1e-13)
    for solver in ("gram", "krylov", "power", "vr"):
        source = in_blocks(X, 64)
        found = vrpca.svd(source, 2, solver=solver, tol=1e-6, random_state=0)
        assert source.readings == found.n_passes


@pytest.mark.parametrize("make", [Minimal, Gathering])
def test_samples_are_rows_of_the_source(make):
    """Gathered where that is possible; otherwise whole blocks."""
    X = some_data()
    weights = np.arange(1.0, 401)
    source = make(X)
    problem = Problem(source, weights, True, False, 1)
    sample, fetched = problem.sample(60, np.random.default_rng(0))
    assert fetched == sample.source.shape[0] == (60 if make is Gathering else 100)
    ((_, rows),) = sample.source.blocks()
    numbers = sample.weights.astype(int) - 1  # the weights are the numbers of the rows
    np.testing.assert_array_equal(rows, X[numbers])
    view = View.of(problem, column_moments(source, weights, 1))
    assert view.passes_of_samples(200) == (0.5 if make is Gathering else 1.0)


# ---------------------------------------------------------------------------------------------------- walks and pieces


@given(st.integers(1, 200), st.integers(1, 250), st.integers(0, 2**32 - 1))
def test_walks_cover_every_row_once(n, rows, seed):
    for rng in (None, np.random.default_rng(seed)):
        seen = np.concatenate([np.arange(n)[piece] for piece in walk(n, rows, rng)])
        assert sorted(seen) == list(range(n))
        assert rng is not None or (np.diff(seen) == 1).all()


def test_random_walks_repeat_with_their_seed_and_differ_without(monkeypatch):
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 64)
    source = as_source(np.arange(400, dtype=np.int64).reshape(100, 4))
    starts = [[s for s, _ in source.blocks(np.random.default_rng(seed))] for seed in (1, 1, 2)]
    assert starts[0] == starts[1] != starts[2]
    assert starts[0] != sorted(starts[0])


@pytest.mark.parametrize("fmt", ["dense", "csr"])
@pytest.mark.parametrize("least", [1, 64, 5000])
@pytest.mark.parametrize("d", [3, 1000])
def test_pieces_cover_a_block_and_fit_the_cache(d, least, fmt, rng):
    X = rng.standard_normal((3000, d))
    X = sp.csr_array(X) if fmt == "csr" else X
    for order in (None, rng):
        cut = list(pieces(X, order, least))
        starts = np.array([start for start, _ in cut])
        lengths = np.array([piece.shape[0] for _, piece in cut])
        turn = np.argsort(starts)
        assert order is not None or (turn == np.arange(len(cut))).all()
        np.testing.assert_array_equal(starts[turn], np.cumsum(np.r_[0, lengths[turn][:-1]]))
        assert lengths.sum() == 3000
        bytes_per_row = d * 8 * (2 if fmt == "csr" else 1)
        assert lengths.max() <= max(least, PIECE_BYTES // bytes_per_row + 1)
        assert len(cut) == 1 or lengths[turn][:-1].min() >= least
        assert Blocks(*(cut[i][1] for i in turn)).shape == X.shape
