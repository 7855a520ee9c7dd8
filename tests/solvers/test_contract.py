"""What every solver owes, over every kind of source: one test per promise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import (
    KINDS,
    NOTHING_FOUND,
    ChunkedSource,
    assert_orthonormal,
    assert_true_answer,
    lapack,
    sine,
    small_counts,
    suboptimality,
    transformed,
    view_of,
    with_eigenvalues,
)
from vrpca.options import Options
from vrpca.plan import make_solver
from vrpca.run import certificate_of
from vrpca.solvers import SOLVERS
from vrpca.solvers.snapshot import Snapshot

CONVERGING = [name for name in SOLVERS if name != "oja"]
X = small_counts()
TOL = 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("center", [False, True])
def test_any_solver_any_source(solver, kind, center):
    data = KINDS[kind](X)
    Z = transformed(X, center)
    options = {"center": center, "solver": solver, "random_state": 3, "tol": TOL, "max_passes": 400, "n_threads": 1}
    if solver == "oja":
        with pytest.warns(ConvergenceWarning):
            found = vrpca.svd(data, 2, **{**options, "max_passes": 20})
        assert_orthonormal(found.Vt, 1e-5)
        assert suboptimality(Z, found.Vt) < 0.3
        assert max(r.objective for r in found.history) > 2 * found.history[0].objective
        return
    found = vrpca.svd(data, 2, **options)
    assert found.converged, found.status
    assert_true_answer(found, Z, TOL)
    s, Vt = lapack(Z)
    np.testing.assert_allclose(found.s, s[:2], rtol=1e-6)
    allowed = np.sqrt(TOL * (s[:2] ** 2).sum() / (s[1] ** 2 - s[2] ** 2))
    assert sine(found.Vt, Vt[:2]) <= allowed + 1e-5 * (found.Vt.dtype == np.float32)


@pytest.mark.parametrize("kind", ["int8", "float16", "float32", "CSR float32", "CSR int16"])
def test_small_number_types_give_float32(kind):
    found = vrpca.svd(KINDS[kind](X), 2, random_state=0)
    assert found.Vt.dtype == found.U.dtype == found.s.dtype == np.float32


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith(("32", "16", "int8"))])
def test_other_number_types_give_float64(kind):
    found = vrpca.svd(KINDS[kind](X), 2, random_state=0)
    assert found.Vt.dtype == found.U.dtype == found.s.dtype == np.float64


@pytest.mark.parametrize("solver", CONVERGING)
@pytest.mark.parametrize("shape", [(30, 600), (600, 30), (60, 60), (12, 2500)], ids=str)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("center", [False, True])
def test_wide_square_and_tall(solver, shape, sparse, center):
    data = small_counts(*shape, seed=sum(shape))
    Z = transformed(data, center)
    found = vrpca.svd(
        KINDS["CSR"](data) if sparse else data, 3, center=center, solver=solver, random_state=1, max_passes=2000
    )
    assert found.converged
    assert found.U.shape == (shape[0], 3) and found.Vt.shape == (3, shape[1]) and found.s.shape == (3,)
    assert_true_answer(found, Z, 1e-8)


@pytest.mark.reference
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("transpose", [False, True])
def test_states_keep_their_identities(solver, k, transpose):
    """A W = W Theta + R, W orthonormal, W^T A W diagonal, R orthogonal to W, P = Z W, G = R^T R: at every step."""
    data = small_counts(90, 14, seed=5)
    weights = np.random.default_rng(0).uniform(0.2, 2, len(data))
    view = view_of(data, center=True, scale=True, weights=weights, transpose=transpose)
    Z = transformed(data, True, True, weights)
    Z = (Z.T if transpose else Z) * np.sqrt(view.n) / np.linalg.norm(Z)
    A = Z.T @ Z / view.n
    rng = np.random.default_rng(1)
    worker = make_solver(solver, Options(), k, view.source.entries, view.d, view.source.sparse)
    state = worker.start(view, NOTHING_FOUND, rng)
    for _ in range(4):
        W = state.vectors()
        assert W.shape == (view.d, k) and state.d == view.d
        assert_orthonormal(np.ascontiguousarray(W.T), 1e-13)
        P = np.zeros((view.n, k))
        U = view.product(np.ascontiguousarray(W), P)
        snapshot = isinstance(state, Snapshot)
        np.testing.assert_allclose(state.U if snapshot else U, A @ W, atol=1e-13)
        np.testing.assert_allclose(state.P if snapshot else P, Z @ W, atol=1e-12)
        np.testing.assert_allclose(W.T @ (state.U if snapshot else U), np.diag(state.theta), atol=1e-13)
        R = A @ W - W * state.theta
        np.testing.assert_allclose(W.T @ R, 0, atol=1e-13)
        np.testing.assert_allclose(state.G, R.T @ R, atol=1e-13)
        eigenvalues = np.linalg.eigvalsh(A)[::-1]
        assert (state.theta <= eigenvalues[:k] + 1e-14).all()
        certificate = certificate_of(state, k, view)
        np.testing.assert_allclose(certificate.residuals, np.linalg.norm(R, axis=0) / state.theta[0], atol=1e-7)
        if state.steps_left == 0:
            break
        state = worker.step(view, state, rng)


@pytest.mark.reference
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("k", [1, 3])
def test_history_agrees_with_the_answer(solver, k, recwarn):
    """The last record is what was returned: residual, objective, bound, passes."""
    data = small_counts()
    Z = transformed(data, True)
    found = vrpca.pca(data, k, solver=solver, random_state=2, max_passes=30, compute_u=False)
    last = found.history[-1]
    A = Z.T @ Z / len(Z)
    V = found.Vt.T
    theta = np.diag(V.T @ A @ V)
    residuals = np.linalg.norm(A @ V - V * theta, axis=0) / theta[0]
    np.testing.assert_allclose(theta, found.s**2 / len(Z), rtol=1e-12)
    if solver != "oja":  # which returns the best snapshot, not the last
        np.testing.assert_allclose(last.residual, residuals.max(), rtol=1e-5, atol=1e-10)
        np.testing.assert_allclose(found.certificate.residuals, residuals, rtol=1e-5, atol=1e-10)
        assert last.bound == found.certificate.suboptimality
        np.testing.assert_allclose(last.objective, theta.sum() / np.trace(A), rtol=1e-12)
    np.testing.assert_allclose(max(r.objective for r in found.history), theta.sum() / np.trace(A), rtol=1e-12)
    assert last.passes == found.n_passes == last.rows_read / len(Z)


@pytest.mark.reference
@pytest.mark.parametrize("solver", ["vr", "power", "hybrid"])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_objective_is_monotone(solver, k, seed):
    data = with_eigenvalues(400, 25, 0.8 ** np.arange(25), seed)
    found = vrpca.svd(data, k, solver=solver, random_state=seed, max_passes=300)
    accepted = [r.objective for r in found.history if not r.event]
    assert len(accepted) > 3
    assert (np.diff(accepted) >= -1e-14).all()
    best = (0.8 ** np.arange(k)).sum() / (0.8 ** np.arange(25)).sum()
    assert max(accepted) <= best * (1 + 1e-13)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sampling", ["uniform", "norm"])
def test_rows_read_are_counted_honestly(solver, sampling, sparse, recwarn):
    """rows_read is what a source that counts has handed out, the first pass included."""
    source = ChunkedSource(KINDS["CSR"](X) if sparse else X, rows=50)
    seen = []
    found = vrpca.pca(
        source,
        2,
        solver=solver,
        sampling=sampling,
        random_state=0,
        max_passes=20,
        callback=lambda record: seen.append((record.rows_read, source.handed_out)),
    )
    assert [rows for rows, _ in seen] == [handed_out for _, handed_out in seen]
    assert found.n_passes == source.handed_out / len(X)


@pytest.mark.parametrize("length", [10, 60, 120, 960])
def test_rows_read_with_other_epoch_lengths_are_never_too_few(length, recwarn):
    source = ChunkedSource(X, rows=50)
    found = vrpca.pca(source, 2, solver="vr", epoch_length=length, random_state=0, max_passes=8)
    assert found.n_passes * len(X) >= source.handed_out


def test_rows_read_of_a_wide_source_are_counted_on_its_side():
    source = ChunkedSource(np.ascontiguousarray(X.T), rows=7)
    found = vrpca.svd(source, 2, solver="vr", random_state=0)
    transposed_rows = source.other.handed_out
    assert found.n_passes == source.handed_out / source.shape[0] + transposed_rows / source.shape[1]


@pytest.mark.parametrize("magnitude", [1e-100, 1e100])
def test_reading_extreme_magnitudes_again_is_counted(magnitude):
    """The first block is zero and does not show the magnitude: the moments have to be read again."""
    source = ChunkedSource(X * magnitude * (np.arange(len(X)) >= 50)[:, None], rows=50)
    found = vrpca.pca(source, 2, solver="gram", random_state=0)
    assert found.n_passes == source.handed_out / len(X)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize("max_passes", [3, 4, 5, 7.5, 12])
def test_max_passes_is_never_exceeded(solver, sampling, max_passes, recwarn):
    try:
        found = vrpca.pca(X, 2, solver=solver, sampling=sampling, random_state=0, tol=0, max_passes=max_passes)
    except vrpca.OptionError as error:
        if max_passes > 4 or "too few" not in str(error):  # the first pass, norms, Oja's pass and a snapshot fit into 4
            raise
        return
    assert found.n_passes <= max_passes
    assert max(r.passes for r in found.history) <= max_passes


def test_the_data_are_never_changed():
    data = X.copy()
    data.flags.writeable = False
    for solver in CONVERGING:
        vrpca.pca(data, 2, solver=solver, scale=True, random_state=0, max_passes=1000)
    np.testing.assert_array_equal(data, X)
    S = KINDS["CSR"](X)
    before = (S.data.copy(), S.indices.copy(), S.indptr.copy())
    vrpca.pca(S, 2, solver="vr", random_state=0)
    for now, then in zip((S.data, S.indices, S.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("solver", ["vr", "oja", "hybrid"])
@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize("max_passes", [5, 8, 13])
def test_max_passes_is_never_exceeded_by_a_source_in_blocks(solver, sampling, max_passes, recwarn):
    source = ChunkedSource(X, rows=50)
    found = vrpca.pca(source, 2, solver=solver, sampling=sampling, random_state=0, tol=0, max_passes=max_passes)
    assert source.handed_out / len(X) <= found.n_passes <= max_passes
