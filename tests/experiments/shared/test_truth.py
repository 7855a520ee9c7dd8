"""True suboptimality and reference eigenvalues, against dense LAPACK on small matrices of every kind."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import densify, random_orthonormal, sparse_matrix
from vrpca.errors import DataError
from vrpca.experiments.shared import optimum, truth
from vrpca.experiments.shared.datasets import CENTRED, UNCENTRED, Prepared, describe


def matrices(rng):
    dense = rng.standard_normal((90, 30)).astype(np.float32) + 1
    sparse = sp.csr_matrix(sparse_matrix(80, 40, 0.2, rng, np.float32))
    return {"tall": dense, "wide": dense[:20], "sparse tall": sparse, "sparse wide": sparse[:25]}


def lapack(X, center):
    """A's eigenvalues, largest first."""
    Z = densify(X)
    Z = Z - Z.mean(axis=0) if center else Z
    return np.linalg.svd(Z, compute_uv=False) ** 2 / len(Z)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", ["tall", "wide", "sparse tall", "sparse wide"])
@pytest.mark.parametrize("largest", [4000, 10])
def test_eigenvalues_equal_lapack(rng, monkeypatch, kind, center, largest):
    """By the Gram matrix and, if its largest size is lowered, by ARPACK or the block Krylov space."""
    monkeypatch.setattr(truth, "SMALL_SIDE", largest)
    monkeypatch.setattr(optimum, "ROWS", 32)
    X = matrices(rng)[kind]
    np.testing.assert_allclose(truth.leading_eigenvalues(X, 3, center), lapack(X, center)[:3], rtol=1e-12)


@pytest.mark.parametrize("rank", [3, 300])
@pytest.mark.parametrize("center", [False, True])
def test_krylov_space_on_large_dense_data(rng, monkeypatch, rank, center):
    """The rank may be lower than the number of wanted eigenvalues; the space need not be exhausted."""
    monkeypatch.setattr(truth, "SMALL_SIDE", 10)
    factors = rng.standard_normal((500, rank)), 0.8 ** np.arange(rank), rng.standard_normal((rank, 300))
    X = (factors[0] * factors[1]) @ factors[2]
    passes = []
    monkeypatch.setattr(truth, "row_blocks", lambda X: passes.append(1) or optimum.row_blocks(X))
    values, vectors = truth.leading_eigenpairs(X, 5, center)
    np.testing.assert_allclose(values, lapack(X, center)[:5], rtol=1e-12, atol=1e-12 * values[0])
    assert len(passes) <= 12
    Z = X - X.mean(axis=0) if center else X
    np.testing.assert_allclose(Z.T @ (Z @ vectors) / 500, vectors * values, atol=1e-6 * values[0])


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", ["tall", "sparse wide"])
def test_suboptimality_equals_its_definition(rng, monkeypatch, kind, center):
    monkeypatch.setattr(optimum, "ROWS", 32)
    X = matrices(rng)[kind]
    Z = densify(X)
    Z = Z - Z.mean(axis=0) if center else Z
    top = lapack(X, center)
    W = random_orthonormal(Z.shape[1], 3, rng)
    expected = 1 - np.trace(W.T @ Z.T @ Z @ W) / len(Z) / top[:3].sum()
    mixed = W @ rng.standard_normal((3, 3))  # only the span counts
    for given in (W, mixed):
        assert truth.suboptimality(X, given, center, top) == pytest.approx(expected, abs=1e-12)
    best = np.linalg.svd(Z)[2][:3].T
    assert abs(truth.suboptimality(X, best, center, top)) < 1e-14


def prepared(path, X, center=CENTRED) -> Prepared:
    np.save(path, X)
    return describe(path, "data", center)


def test_references_are_kept_by_content(tmp_path, rng, monkeypatch):
    X = rng.standard_normal((50, 8))
    data = prepared(tmp_path / "a.npy", X)
    told: list[str] = []
    first = truth.reference(data, 3, tmp_path, lambda: told.append("computing"))
    assert told == ["computing"]
    truth.reference(data, 3, tmp_path, lambda: told.append("again"))
    assert told == ["computing"]
    monkeypatch.setattr(truth, "leading_eigenvalues", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(truth.reference(prepared(tmp_path / "copy.npy", X), 2, tmp_path), first[:2])
    monkeypatch.undo()
    other = truth.reference(prepared(tmp_path / "b.npy", 2 * X), 3, tmp_path)
    np.testing.assert_allclose(other, 4 * first)
    assert len(truth.reference(data, 5, tmp_path)) == 5
    uncentred = truth.reference(prepared(tmp_path / "a.npy", X, UNCENTRED), 3, tmp_path)
    np.testing.assert_allclose(uncentred, lapack(X, False)[:3])
    stored = [json.loads(path.read_text()) for path in (tmp_path / "references").iterdir()]
    assert len(stored) == 3


def test_data_without_an_optimum(tmp_path):
    with pytest.raises(DataError, match="NaN"):
        truth.reference(prepared(tmp_path / "nan.npy", np.full((9, 3), np.nan)), 1, tmp_path)
    with pytest.raises(DataError, match="no variance"):
        truth.reference(prepared(tmp_path / "ones.npy", np.zeros((9, 3))), 1, tmp_path)
