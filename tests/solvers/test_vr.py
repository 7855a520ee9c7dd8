"""Algorithm 1 and its block form: the steps to the letter, their rate, and every option."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import (
    KINDS,
    NOTHING_FOUND,
    assert_true_answer,
    lapack,
    orthonormal,
    sine,
    small_counts,
    suboptimality,
    transformed,
    view_of,
    with_eigenvalues,
)
from vrpca.options import Options
from vrpca.solvers.deflation import Deflation
from vrpca.solvers.oja import Oja
from vrpca.solvers.vr_block import vr_variant

EIGENVALUES = 0.7 ** np.arange(20)
X = with_eigenvalues(800, 20, EIGENVALUES)


def algorithm_1(Z, w_snapshot, eta, order, weight=None):
    """The paper's inner loop (Algorithm 1), copied from its text; rows of Z are the x_i."""
    u = Z.T @ (Z @ w_snapshot) / len(Z)
    w = w_snapshot.copy()
    for i in order:
        x = Z[i]
        c = 1.0 if weight is None else weight[i]
        w = w + eta * (c * x * (x @ w - x @ w_snapshot) + u)
        w /= np.linalg.norm(w)
    return w


def remark_1(Z, W_snapshot, eta, order):
    """Remark 1 with Gram-Schmidt, here by Householder QR with the signs that keep W close to W'."""
    U = Z.T @ (Z @ W_snapshot) / len(Z)
    W = W_snapshot.copy()
    for i in order:
        x = Z[i][:, None]
        W = W + eta * (x @ (x.T @ W - x.T @ W_snapshot) + U)
        Q, R = np.linalg.qr(W)
        W = Q * np.sign(np.diag(R))
    return W


def projection_steps(Z, W_snapshot, eta, order):
    """W <- (I + eta [z z^T (I - P) + U W0^T]) W with P = W0 W0^T, as d x d matrices."""
    d = len(W_snapshot)
    U = Z.T @ (Z @ W_snapshot) / len(Z)
    complement = np.eye(d) - W_snapshot @ W_snapshot.T
    W = W_snapshot.copy()
    for i in order:
        W = (np.eye(d) + eta * (np.outer(Z[i], Z[i]) @ complement + U @ W_snapshot.T)) @ W
        W = np.linalg.qr(W)[0]
    return W


def vr(width, **options):
    """The variant of `vr` for blocks of this width."""
    options = Options(**options)
    return vr_variant(options, width)(options, width)


def one_step(solver, view, seed=0, W0=None):
    """The vectors of a first state, a generator for the row numbers of the next epoch, and the next state's vectors."""
    rng = np.random.default_rng(seed)
    state = solver.start(view, NOTHING_FOUND, rng, W0)
    twin = copy.deepcopy(rng)
    return state.vectors().copy(), twin, solver.step(view, state, rng).vectors()


def heuristic(Z):
    """eta = 1 / (rbar sqrt n), in the units of the data."""
    return 1 / ((Z**2).sum(axis=1).mean() * np.sqrt(len(Z)))


CASES = {
    "dense": {},
    "sparse": {"sparse": True},
    "centred": {"center": True},
    "sparse centred": {"sparse": True, "center": True},
    "sparse scaled": {"sparse": True, "center": True, "scale": True},
    "weighted": {"center": True, "weights": True},
    "sparse weighted": {"sparse": True, "center": True, "scale": True, "weights": True},
}


def case(name):
    settings = dict(CASES[name])
    data = small_counts(150, 12, seed=8)
    settings["weights"] = np.random.default_rng(5).uniform(0, 2, 150) if settings.pop("weights", False) else None
    sparse = settings.pop("sparse", False)
    view = view_of(sp.csr_array(data) if sparse else data, **settings)
    return view, transformed(data, **settings) * np.sqrt(
        1 if settings["weights"] is None else 150 / settings["weights"].sum()
    )


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_an_epoch_is_algorithm_1_to_the_letter(name):
    view, Z = case(name)
    W, rng, after = one_step(vr(1), view)
    w = algorithm_1(Z, W[:, 0], heuristic(Z), rng.integers(150, size=150))
    assert np.linalg.norm(w * np.sign(w @ after[:, 0]) - after[:, 0]) < 1e-12


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_sampling_by_norm_weighs_each_step_by_one_over_its_probability(name):
    view, Z = case(name)
    W, rng, after = one_step(vr(1, sampling="norm"), view)
    norms = (Z**2).sum(axis=1)
    order = np.searchsorted(np.cumsum(norms), rng.random(150) * norms.sum(), side="right")
    w = algorithm_1(Z, W[:, 0], heuristic(Z), order, np.divide(norms.mean(), norms, where=norms > 0, out=norms * 0))
    assert np.linalg.norm(w * np.sign(w @ after[:, 0]) - after[:, 0]) < 1e-12


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("control", ["difference", "projection"])
def test_a_block_epoch_is_its_formula(name, control):
    view, Z = case(name)
    W, rng, after = one_step(vr(3, control=control), view)
    steps = remark_1 if control == "difference" else projection_steps
    expected = steps(Z, W, heuristic(Z), rng.integers(150, size=150))
    assert sine(after.T, expected.T) < 1e-12


@pytest.mark.reference
def test_with_one_column_the_projection_form_is_its_own_formula():
    view, Z = case("sparse centred")
    W, rng, after = one_step(vr(1, control="projection"), view)
    assert sine(after.T, projection_steps(Z, W, heuristic(Z), rng.integers(150, size=150)).T) < 1e-12


@pytest.mark.reference
@pytest.mark.parametrize("name", CASES)
def test_a_deflated_epoch_is_algorithm_1_on_projected_rows(name):
    view, Z = case(name)
    _, Vt = lapack(Z)
    start = np.column_stack([Vt[0], orthonormal(12, 1, np.random.default_rng(0))])
    W, rng, after = one_step(Deflation(Options(), 2), view, W0=start)
    first = Vt[0][:, None]
    projected = Z - (Z @ first) @ first.T
    w = algorithm_1(projected, W[:, 1], heuristic(Z), rng.integers(150, size=150))
    assert sine(after.T, np.stack([Vt[0], w])) < 1e-6  # the start's first vector is found again, up to Ritz rotation
    assert sine(after.T, np.linalg.qr(np.stack([Vt[0], w]).T)[0].T) < 1e-6


@pytest.mark.reference
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_oja_takes_steps_c_over_t(name, k):
    view, Z = case(name)
    W, rng, after = one_step(Oja(Options(step=0.02), k), view)
    for t, i in enumerate(rng.integers(150, size=150), start=1):
        W = np.linalg.qr(W + 0.02 / t * np.outer(Z[i], Z[i] @ W))[0]
    assert sine(after.T, W.T) < 1e-12


@pytest.mark.reference
def test_a_step_given_as_a_number_is_in_the_units_of_the_data():
    view, Z = case("sparse centred")
    W, rng, after = one_step(vr(1, step=0.004, epoch_length=77), view)
    w = algorithm_1(Z, W[:, 0], 0.004, rng.integers(150, size=77))
    assert np.linalg.norm(w * np.sign(w @ after[:, 0]) - after[:, 0]) < 1e-12


VARIANTS = {
    "vector": (1, {}),
    "vector, by norm": (1, {"sampling": "norm"}),
    "vector, projection": (1, {"control": "projection"}),
    "vector, oversampled": (1, {"oversample": 3}),
    "block": (4, {}),
    "block, no oversampling": (4, {"oversample": 0}),
    "block, oversampled": (4, {"oversample": 6}),
    "block, by norm": (4, {"sampling": "norm"}),
    "block, difference": (4, {"control": "difference"}),
    "block, difference by norm": (3, {"control": "difference", "sampling": "norm", "oversample": 0}),
    "block, wider than the data": (4, {"oversample": 100}),
    "deflation": (3, {"deflate": True}),
    "deflation by norm": (3, {"deflate": True, "sampling": "norm"}),
    "deflation of one": (1, {"deflate": True}),
    "restarts": (2, {"restarts": 3}),
    "short epochs": (2, {"epoch_length": 200}),
    "long epochs": (2, {"epoch_length": 3000}),
    "step of the paper": (2, {"step": "paper"}),
    "step as a number": (2, {"step": 0.01}),
    "hybrid": (4, {"solver": "hybrid"}),
    "hybrid, one": (1, {"solver": "hybrid", "sampling": "norm"}),
    "power": (3, {"solver": "power"}),
    "gram": (3, {"solver": "gram"}),
}


@pytest.mark.parametrize("form", ["dense", "float32", "sparse", "centred"])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_finds_lapacks_subspace(name, form):
    k, options = VARIANTS[name]
    data = {"float32": lambda: X.astype(np.float32), "sparse": lambda: sp.csr_array(X)}.get(form, lambda: X)()
    tol = 1e-10
    center = form == "centred"
    Z = transformed(X, center)
    found = vrpca.svd(data, k, **{"solver": "vr", "max_passes": 500, **options}, tol=tol, center=center, random_state=0)
    assert found.converged, (found.status, found.history[-1])
    assert_true_answer(found, Z, tol)
    s, Vt = lapack(Z)
    gap = (s[k - 1] ** 2 - s[k] ** 2) / (s[:k] ** 2).sum()
    assert sine(found.Vt, Vt[:k]) <= np.sqrt(tol / gap) + 10 * np.finfo(found.Vt.dtype).eps / gap


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_convergence_is_exponential(k, seed):
    """The log of the true error falls along a straight line over epochs (Theorem 1), down to rounding."""
    Y = with_eigenvalues(2000, 30, 0.75 ** np.arange(30), seed)
    s = np.linalg.svd(Y, compute_uv=False)
    best = (s[:k] ** 2).sum() / (s**2).sum()
    found = vrpca.svd(Y, k, solver="vr", tol=1e-13, random_state=seed, oversample=0)
    errors = 1 - np.array([r.objective for r in found.history]) / best
    errors = errors[(errors < 1e-1) & (errors > 1e-13)]
    assert len(errors) >= 5
    epochs, logs = np.arange(len(errors)), np.log10(errors)
    slope, intercept = np.polyfit(epochs, logs, 1)
    assert slope < -0.4  # a constant factor per epoch; the residuals of the fit below are small against the fall
    assert np.abs(logs - (slope * epochs + intercept)).max() < 0.15 * (logs[0] - logs[-1])


def test_vr_beats_oja_at_equal_passes():
    Y = with_eigenvalues(2000, 30, 0.75 ** np.arange(30))
    vr = vrpca.svd(Y, 1, solver="vr", tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning):
        oja = vrpca.svd(Y, 1, solver="oja", tol=1e-12, max_passes=vr.n_passes, random_state=0)
    assert suboptimality(Y, vr.Vt) < 1e-12
    assert suboptimality(Y, oja.Vt) > 1e-7


@pytest.mark.parametrize("k", [1, 3])
def test_oja_improves_slowly_but_really(k):
    Y = with_eigenvalues(2000, 30, 0.75 ** np.arange(30))
    best = (0.75 ** np.arange(k)).sum() / (0.75 ** np.arange(30)).sum()
    errors = []
    for seed in range(4):
        with pytest.warns(ConvergenceWarning, match="max_passes"):
            found = vrpca.svd(Y, k, solver="oja", step=1.5, max_passes=160, tol=1e-9, random_state=seed)
        errors.append(1 - np.array([r.objective for r in found.history]) / best)
    records = min(map(len, errors))  # a run whose best snapshot is not its last one ends an epoch earlier
    mean = np.mean([error[:records] for error in errors], axis=0)
    early, middle, late = mean[1:6].mean(), mean[12:20].mean(), mean[-20:].mean()
    assert middle < early / 2 and late < middle / 2  # it goes down ...
    assert late > 1e-9  # ... like 1/t, not exponentially


@pytest.mark.parametrize("seed", range(5))
def test_restarts_keep_the_largest_objective(seed):
    """The best of R runs with one generator is the best of R runs on their own."""
    Y = with_eigenvalues(300, 40, np.linspace(1, 0.9, 40))
    options = {"solver": "vr", "tol": 1e-12}
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        single = [vrpca.svd(Y, 1, random_state=rng, max_passes=8, **options).s[0] for _ in range(3)]
        rng = np.random.default_rng(seed)
        best = vrpca.svd(Y, 1, random_state=rng, restarts=3, max_passes=24, **options)
    assert best.s[0] >= max(single) - 1e-12


@pytest.mark.parametrize("restarts", [2, 5])
def test_restarts_share_the_budget(restarts):
    Y = with_eigenvalues(300, 40, np.linspace(1, 0.9, 40))
    with pytest.warns(ConvergenceWarning):
        found = vrpca.svd(Y, 1, solver="vr", tol=1e-12, max_passes=20, restarts=restarts, random_state=0)
    assert found.n_passes <= 20


def test_all_zero_columns_get_zero_entries():
    """Appendix A: all-zero columns are dropped before and put back after."""
    Y = np.zeros((400, 30))
    kept = np.arange(0, 30, 3)
    Y[:, kept] = with_eigenvalues(400, 10, 0.6 ** np.arange(10))
    for data in (Y, sp.csr_array(Y)):
        found = vrpca.svd(data, 2, solver="vr", random_state=0, tol=1e-10)
        assert_true_answer(found, Y, 1e-10)
        dropped = np.setdiff1d(np.arange(30), kept)
        np.testing.assert_array_equal(found.Vt[:, dropped], 0)


@pytest.mark.parametrize("solver", ["vr", "hybrid", "power", "gram"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_more_components_than_rank(solver, rank):
    Y = with_singular_values_of_rank(rank)
    found = vrpca.svd(Y, 4, solver=solver, random_state=0)
    assert found.converged
    assert_true_answer(found, Y, 1e-8)
    np.testing.assert_allclose(found.s[rank:], 0, atol=1e-12 * found.s[0])
    assert np.isfinite(found.U).all()


def with_singular_values_of_rank(rank):
    return with_eigenvalues(200, 15, 0.5 ** np.arange(rank))


@pytest.mark.parametrize("kind", ["F order", "int64", "CSR int16", "CSC", "pandas", "polars"])
@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize(("solver", "k"), [("vr", 1), ("vr", 3), ("hybrid", 1)])
def test_rows_sorted_by_class_do_no_harm_in_any_layout(kind, sampling, solver, k, monkeypatch):
    """Data that are converted piece by piece take about as many passes as an array, which is drawn from as a whole."""
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 200 * 30 * 8)
    rng = np.random.default_rng(0)
    classes = np.repeat(rng.standard_normal((10, 30)) * 4, 400, axis=0)
    data = np.rint(4 * (classes + rng.standard_normal(classes.shape)) / np.arange(1, 31) ** 0.5)
    options = {"solver": solver, "sampling": sampling, "random_state": 0, "tol": 1e-9, "max_passes": 200}
    plain, found = (vrpca.pca(D, k, **options) for D in (data, KINDS[kind](data)))
    assert found.converged
    assert found.n_passes <= 1.5 * plain.n_passes + 2
