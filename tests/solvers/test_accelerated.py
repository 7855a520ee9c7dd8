"""The three ways of `accelerated`, and samples of a view."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import (
    ChunkedSource,
    assert_orthonormal,
    assert_true_answer,
    small_counts,
    transformed,
    view_of,
    with_singular_values,
)
from vrpca.options import Options
from vrpca.plan import make_solver
from vrpca.solvers import krylov
from vrpca.solvers.accelerated import (
    FREE,
    SPARSE_FREE,
    Narrow,
    Reading,
    Sampled,
    SparseReading,
    Streamed,
    Wide,
)
from vrpca.solvers.search_space import SearchSpace

WAYS = {"sampled": "time", "narrow": "time", "streamed": "passes", "read": "reading"}


def data_for(way, n=4000, d=60, seed=0):
    """A matrix on which `accelerated` goes this way: many rows, or few entries per column."""
    X = with_singular_values(n if way != "narrow" else 500, d, 0.93 ** np.arange(d), seed)
    return X + 0.01 * np.random.default_rng(seed).standard_normal(d)


@pytest.mark.parametrize("source", ["whole", "F order", "int", "sparse", "chunks", "sparse chunks"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_is_made_of_rows_of_the_view(source, center, weighted):
    X = small_counts(500, 20)
    X[:, 0] = np.arange(500)  # tells the rows apart
    kinds = {
        "whole": X,
        "F order": np.asfortranarray(X),
        "int": X.astype(np.int64),
        "sparse": sp.csr_array(X),
        "chunks": ChunkedSource(X, 64),
        "sparse chunks": ChunkedSource(sp.csr_array(X), 64),
    }
    weights = np.random.default_rng(1).uniform(0.1, 2, 500) if weighted else None
    view = view_of(kinds[source], center=center, scale=True, weights=weights)
    Z = transformed(X, center, True, weights)
    Z *= np.sqrt(500) / np.linalg.norm(Z)
    part = view.sample(100, np.random.default_rng(0))
    fetched = 100 if source in ("whole", "sparse") else part.n
    assert 100 <= fetched <= (500 if source in ("F order", "int") else 128)  # a block that has to be made comes whole
    assert view.rows_read == fetched == part.n and part.rows_read == 0 and part.d == view.d
    eye = np.eye(20)
    P = np.zeros((part.n, 20))
    A = part.product(eye, P)
    distance = np.abs(P[:, None, :] - Z[None]).max(axis=2)
    assert distance.min(axis=1).max() < 1e-12, "not a row of the view"
    assert len(set(distance.argmin(axis=1).tolist())) == part.n, "a row was drawn twice"
    np.testing.assert_allclose(A, P.T @ P / part.n, atol=1e-12)
    assert part.rows_read == part.n and view.rows_read == fetched
    full = np.zeros((500, 20))
    view.product(eye, full)  # the view itself is as it was
    np.testing.assert_allclose(full, Z, atol=1e-12)


@pytest.mark.parametrize(
    ("X", "cost", "way"),
    [
        (data_for("sampled"), "time", Sampled),
        (data_for("narrow"), "time", Narrow),
        (sp.random_array((4000, 60), density=0.02, rng=np.random.default_rng(0)).tocsr(), "time", Narrow),
        (data_for("sampled"), "passes", Wide),
        (data_for("narrow"), "passes", Streamed),
        (data_for("narrow"), "reading", Reading),
        (sp.csr_array(data_for("narrow")), "reading", SparseReading),
        (sp.random_array((4000, 60), density=0.02, rng=np.random.default_rng(0)).tocsr(), "reading", Narrow),
    ],
)
def test_the_way_is_what_costs_least(X, cost, way):
    source = view_of(X).source
    made = make_solver("accelerated", Options(cost=cost), 3, source.entries, source.shape[1], source.sparse)
    assert type(made) is way


@pytest.mark.parametrize(
    ("cost", "sparse", "widths"),
    [
        ("time", False, {1: 7, 5: 7, 6: 11, 7: 11, 8: 15, 13: 15, 14: 19, 15: 19, 16: 23}),
        ("time", True, {1: 7, 5: 7, 6: 15, 13: 15, 14: 23}),
        ("reading", False, {5: 7, 6: 15, 14: 23}),
        ("reading", True, {5: 7, 6: 15, 14: 23}),
        ("passes", False, {1: 5, 6: 10, 50: 75}),
        ("passes", True, {1: 5, 6: 10, 50: 75}),
    ],
)
def test_blocks_and_the_witness_fill_registers(cost, sparse, widths):
    found = {k: Sampled.width_for(k, cost, sparse) for k in widths}
    assert found == widths


@pytest.mark.parametrize(("kind", "free"), [(Reading, FREE), (SparseReading, SPARSE_FREE)])
def test_blocks_of_files_are_as_wide_as_can_be_multiplied_while_they_are_read(kind, free):
    for width in (3, 15, 30, 60, 150):
        solver, wide = kind(Options(cost="reading"), width), Wide(Options(cost="passes"), width)
        for found, most in ((solver.block, wide.block), (solver.start_width, wide.start_width)):
            assert width <= found <= max(most, width)
            assert found <= max(free, width)
        assert solver.start_width >= min(wide.start_width, free)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [1, 4, 20])
def test_files_are_read_in_few_passes_with_the_same_answer(sparse, k):
    X = data_for("sampled")
    data = sp.csr_array(X) if sparse else X
    found = vrpca.pca(data, k, cost="reading", solver="accelerated", tol=1e-10, random_state=0)
    again = vrpca.pca(data, k, cost="reading", solver="accelerated", tol=1e-10, random_state=0)
    slow = vrpca.pca(data, k, cost="time", solver="accelerated", tol=1e-10, random_state=0)
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:k]
    np.testing.assert_allclose(found.s, s, rtol=1e-9)
    np.testing.assert_array_equal(found.Vt, again.Vt)
    assert found.converged and found.n_passes <= slow.n_passes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_way_against_lapack(way, k, center, scale, weighted):
    X = data_for(way)
    weights = np.random.default_rng(1).uniform(0.1, 2, len(X)) if weighted else None
    found = vrpca.svd(
        X,
        k,
        center=center,
        scale=scale,
        sample_weight=weights,
        solver="accelerated",
        cost=WAYS[way],
        random_state=0,
        oversample=3,
    )
    assert found.converged
    Z = transformed(X, center, scale, weights)
    np.testing.assert_allclose(found.s, np.linalg.svd(Z, compute_uv=False)[:k], rtol=1e-5)
    assert 1 - np.linalg.norm(Z @ found.Vt.T) ** 2 / (np.linalg.svd(Z, compute_uv=False)[:k] ** 2).sum() < 2e-8


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["F order", "wide", "float32", "chunks"])
def test_every_way_on_other_kinds_of_data(way, kind):
    X = data_for(way)
    given = {
        "F order": np.asfortranarray(X),
        "wide": np.ascontiguousarray(X.T),
        "float32": X.astype(np.float32),
        "chunks": ChunkedSource(X, 300),
    }[kind]
    tol = 1e-6 if kind == "float32" else 1e-8
    found = vrpca.svd(given, 3, solver="accelerated", cost=WAYS[way], tol=tol, random_state=0)
    assert found.converged
    s = np.linalg.svd(X, compute_uv=False)[:3]
    np.testing.assert_allclose(found.s, s, rtol=1e-5)
    Z = X.T if kind == "wide" else X
    assert 1 - np.linalg.norm(Z @ found.Vt.T) ** 2 / (s**2).sum() < 2 * tol
    if isinstance(given, ChunkedSource):
        assert found.n_passes == pytest.approx(given.handed_out / len(X))


@pytest.mark.parametrize("decay", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("k", [1, 5])
def test_few_passes_where_passes_are_the_cost(decay, k):
    X = with_singular_values(3000, 300, decay ** np.arange(300))
    passes = [
        vrpca.svd(X, k, solver=solver, cost="passes", oversample=4, random_state=0, compute_u=False).n_passes
        for solver in ("accelerated", "krylov")
    ]
    assert passes[0] <= passes[1]


@pytest.mark.parametrize("way", WAYS)
def test_repeatable(way):
    X = data_for(way, d=300)
    runs = [vrpca.svd(X, 3, solver="accelerated", cost=WAYS[way], random_state=seed, n_threads=1) for seed in (5, 5, 6)]
    np.testing.assert_array_equal(runs[0].Vt, runs[1].Vt)
    assert (runs[0].Vt != runs[2].Vt).any()
    assert [r.bound for r in runs[0].history] == [r.bound for r in runs[1].history]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_direction_that_samples_cannot_see(way, k, seed):
    """One heavy row in columns that no other row has: only a random direction leads there."""
    X = data_for(way, seed=seed)
    X[:, -4:] = 0
    row = seed * len(X) // 4
    X[row] = 0
    X[row, -4:] = 3
    found = vrpca.svd(X, k, solver="accelerated", cost=WAYS[way], random_state=seed)
    assert found.converged and found.s[0] == pytest.approx(6, rel=1e-6)
    assert np.abs(found.Vt[0, -4:]).min() > 0.49


@pytest.mark.parametrize("cost", ["money", "", None, 1, "PASSES"])
def test_costs_that_are_not_known(cost):
    with pytest.raises(vrpca.OptionError, match="cost="):
        vrpca.svd(np.eye(5), 1, cost=cost)


@pytest.mark.parametrize(("solver", "cost"), [("krylov", "time"), ("accelerated", "time"), ("accelerated", "passes")])
def test_more_components_than_columns_that_are_there(solver, cost):
    X = np.hstack([np.random.default_rng(0).standard_normal((400, 3)), np.zeros((400, 200))])
    found = vrpca.svd(sp.csr_array(X), 5, solver=solver, cost=cost, random_state=0)
    assert found.converged and found.Vt.shape == (5, 203)
    assert_orthonormal(found.Vt)
    np.testing.assert_allclose(found.s, np.linalg.svd(X, compute_uv=False)[:5], atol=1e-6)


@pytest.mark.parametrize("cost", ["time", "passes"])
@pytest.mark.parametrize("fraction", [0.3, 0.8])
def test_a_fraction_of_the_variance(cost, fraction):
    X = data_for("sampled")
    found = vrpca.pca(X, fraction, solver="accelerated", cost=cost, random_state=0)
    ratio = np.linalg.svd(X - X.mean(0), compute_uv=False) ** 2
    assert len(found.s) == np.searchsorted(np.cumsum(ratio / ratio.sum()), fraction) + 1
    assert found.converged


def test_a_start_that_is_as_wide_as_the_data_is_orthonormal():
    """Random columns beside the leading ones of a sample nearly depend on them where all columns fill the space."""
    rng = np.random.default_rng(4)
    X = (rng.standard_normal((2000, 19)) * 0.9 ** np.arange(19)).astype(np.float32)
    W = Wide(Options(cost="passes"), 6)._from_sample(view_of(X), rng)
    assert W.shape == (19, 19)
    np.testing.assert_allclose(W.T @ W, np.eye(19), atol=32 * np.finfo(np.float32).eps)


@pytest.mark.parametrize(("center", "mean", "passes"), [(False, 0, 2), (True, 0, 2), (True, 0.3, 2), (True, 100, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_pass_over_sparse_files_multiplies_the_first_block(weighted, center, mean, passes, rng):
    """Blocks of 4 columns: with the second one, there are more vectors than the 7 of k = 3 and its extra columns.

    Where means are large beside the deviations, the product says little about centred rows, and is made again.
    """
    X = sp.csr_array(rng.standard_normal((95, 60)) * 0.97 ** np.arange(60) + mean)
    weights = rng.uniform(0.5, 2, 95) if weighted else None
    options = {"center": center, "sample_weight": weights, "solver": "accelerated", "tol": 1e-10}
    found = vrpca.svd(X, 3, cost="reading", random_state=0, **options)
    assert found.history[0].passes == passes
    assert vrpca.svd(X, 3, cost="time", random_state=0, **options).history[0].passes == 3
    s = np.linalg.svd(transformed(X, center, False, weights), compute_uv=False)[:3]
    np.testing.assert_allclose(found.s, s, rtol=1e-9)
    assert_orthonormal(found.Vt)


@pytest.fixture
def multiplied(monkeypatch):
    """How many vectors each product of a search space has taken, but for the first one."""
    counts = []
    grow = SearchSpace.grow
    monkeypatch.setattr(SearchSpace, "grow", lambda space, Z, *rest: counts.append(len(Z)) or grow(space, Z, *rest))
    return counts


@pytest.mark.parametrize("cost", ["time", "passes", "reading"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_that_are_accurate_enough_are_not_multiplied_again(dtype, cost, multiplied, monkeypatch):
    """The leading vectors converge first. The answer is as accurate as was asked for."""
    monkeypatch.setattr(krylov, "FINISHING", 0.0)
    X = with_singular_values(4000, 400, np.arange(1, 401) ** -0.5).astype(dtype)
    options = {"solver": "accelerated", "center": False, "random_state": 0, "cost": cost}
    found = vrpca.svd(X, 8, tol=1e-9, **options)
    assert found.converged and 0 < min(multiplied) < max(multiplied)
    assert_true_answer(found, X.astype(float), 1e-9)
    passes, columns = found.n_passes, sum(multiplied)
    multiplied.clear()
    monkeypatch.setattr(krylov, "LOCKED", 0.0)
    assert vrpca.svd(X, 8, tol=1e-9, **options).n_passes == passes
    assert sum(multiplied) > columns


@pytest.mark.parametrize("k", [1, 8])
def test_the_last_pass_multiplies_wanted_vectors_alone(k, multiplied, monkeypatch):
    """With data in memory. Where passes are the cost, columns beyond the wanted ones may save one."""
    monkeypatch.setattr(krylov, "FINISHING", 1000)  # so that it happens in all of these fits
    X = with_singular_values(4000, 400, np.arange(1, 401) ** -0.5)
    options = {"tol": 1e-6, "solver": "accelerated", "center": False, "random_state": 0}
    found = vrpca.svd(X, k, **options)
    assert found.converged and multiplied[-1] <= k < multiplied[0]
    assert_true_answer(found, X, 1e-6)
    multiplied.clear()
    assert vrpca.svd(X, k, cost="passes", **options).converged
    assert min(multiplied) > k


def test_vectors_are_not_locked_where_their_angles_matter(multiplied):
    X = with_singular_values(4000, 60, 0.7 ** np.arange(60))
    vrpca.svd(X, 5, tol=1e-2, angle_tol=1e-7, solver="accelerated", center=False, random_state=0)
    assert len(multiplied) > 1 and len(set(multiplied)) == 1


def test_locked_vectors_that_are_all_there_is_do_not_end_the_search():
    """Where residuals are small enough, but the bound is not, all of them are multiplied."""
    solver = Sampled(Options(tol=1e-3), 7)
    solver.components = 3
    view, rng = view_of(with_singular_values(400, 40, 0.5 ** np.arange(40))), np.random.default_rng(0)
    state = solver.begin(view, None, 20, 1, rng)
    for _ in range(3):
        state = solver.step(view, state, rng)
    assert (state.G.diagonal()[:3] < 1e-12).all()
    assert len(solver.unlocked(state, narrow=False)) == len(state.residuals)


@pytest.mark.parametrize("tol", [1e-2, 1e-3])
def test_certificates_count_what_the_last_pass_has_not_multiplied(tol, multiplied, monkeypatch):
    """Columns beyond the wanted one know no more of the complement after a pass that leaves them out."""
    monkeypatch.setattr(krylov, "FINISHING", 100)  # so that it happens at both tolerances
    X = with_singular_values(1500, 50, 0.6 ** (np.arange(50) / 2))
    squares = np.linalg.svd(X, compute_uv=False) ** 2
    for seed in range(60):
        found = vrpca.svd(X, 1, tol=tol, solver="accelerated", center=False, random_state=seed)
        assert found.converged
        assert 1 - ((X @ found.Vt[0]) ** 2).sum() / squares[0] <= found.certificate.suboptimality
    assert min(multiplied) == 1  # some of these passes were such


def test_columns_are_not_left_out_while_they_may_become_wanted_ones(monkeypatch, rng):
    """Rare heavy rows, which samples miss, come up slowly among the other columns."""
    n, d = 2000, 500
    X = rng.standard_normal((n, d)) * np.sqrt(np.sort(rng.uniform(0.5, 0.8, d))[::-1])
    directions = np.linalg.qr(rng.standard_normal((d, 5)))[0]
    X[rng.choice(n, 5, replace=False)] += np.sqrt(n * rng.uniform(1.6, 1.8, 5))[:, None] * directions.T
    options = {"tol": 1e-2, "solver": "accelerated", "center": False}

    def passes():
        return np.mean([vrpca.svd(X, 2, random_state=seed, **options).n_passes for seed in range(8)])

    usual = passes()
    monkeypatch.setattr(krylov, "FINISHING", 0)
    assert usual <= passes() + 0.5
