"""The paper's synthetic matrices: they have their spectrum, whatever the shape, and the check notices if not."""

import numpy as np
import pytest

from vrpca.errors import DataError, OptionError
from vrpca.experiments.shared import synthetic, truth
from vrpca.experiments.shared.datasets import paper_rows
from vrpca.experiments.shared.synthetic import PaperMatrix, Rotation


def formed(matrix, dtype=np.float64):
    return np.vstack(list(matrix.blocks(dtype)))


@pytest.mark.parametrize(("n", "d", "heavy"), [(60, 20, 0), (75, 20, 0), (39, 20, 0), (20, 20, 0), (90, 20, 25)])
def test_singular_values_are_those_asked_for(n, d, heavy, monkeypatch):
    monkeypatch.setattr(synthetic, "STRIP", 7)
    matrix = PaperMatrix(n, d, 0.05, seed=3, heavy=heavy)
    X = formed(matrix)
    assert X.shape == (n, d)
    np.testing.assert_allclose(np.linalg.svd(X, compute_uv=False), np.sort(matrix.spectrum)[::-1], atol=1e-14)
    np.testing.assert_allclose(matrix.spectrum[:6], [1, 0.95, 0.945, 0.94, 0.935, 0.93])
    assert np.all(np.abs(matrix.spectrum[6:]) < 5 / d)


def test_blocks_do_not_depend_on_each_other():
    """The same seed gives the same matrix, another one another."""
    assert np.array_equal(formed(PaperMatrix(50, 10, 0.1, 1)), formed(PaperMatrix(50, 10, 0.1, 1)))
    assert not np.allclose(formed(PaperMatrix(50, 10, 0.1, 1)), formed(PaperMatrix(50, 10, 0.1, 2)))


def test_entries_are_gaussian():
    """The kurtosis is 3, as for a random rotation; with one round of the transform it would be 1.5."""
    entries = Rotation(512, np.random.default_rng(0))(np.eye(512, 16))
    assert np.mean(entries**4) / np.mean(entries**2) ** 2 == pytest.approx(3, abs=0.2)


def test_heavy_rows_hold_half_of_the_squares():
    squares = (formed(PaperMatrix(400, 10, 0.1, heavy=10)) ** 2).sum(axis=1)
    assert squares[:10].sum() == pytest.approx(squares[10:].sum(), rel=1e-12)


def test_the_known_optimum_is_lapacks():
    matrix = PaperMatrix(80, 15, 0.1, seed=2)
    X = formed(matrix)
    known, found = matrix.optimum(3), truth.optimum(X, 3)
    np.testing.assert_allclose(known.values, found.values, rtol=1e-12)
    assert known.gap == pytest.approx(found.gap, rel=1e-10)
    W = np.random.default_rng(0).standard_normal((15, 3))
    assert known.suboptimality(W) == pytest.approx(truth.suboptimality(X, W, False, found.values), rel=1e-12)
    assert found.suboptimality(W) == pytest.approx(known.suboptimality(W), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_small_suboptimalities_are_exact(k, size):
    """One eigenvector is turned by a small angle, so that the suboptimality is known to all digits."""
    matrix = PaperMatrix(80, 15, 0.1)
    basis, values = matrix.right(np.eye(15)), matrix.spectrum**2 / 80
    W = basis[:, :k].copy()
    W[:, -1] = np.cos(size) * basis[:, k - 1] + np.sin(size) * basis[:, k]
    exact = np.sin(size) ** 2 * (values[k - 1] - values[k]) / values[:k].sum()
    mixed = W @ np.linalg.qr(np.random.default_rng(0).standard_normal((k, k)))[0]
    assert matrix.optimum(k).suboptimality(mixed) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_check_passes_and_fails(dtype):
    matrix = PaperMatrix(120, 20, 0.05)
    X = formed(matrix, dtype)
    found = matrix.check(X)
    assert found.residual < 16 * np.finfo(dtype).eps and found.rest < 0.1
    for spoiled in (1.001 * X, X[:, ::-1], np.vstack([X[1:], X[:1] * 2])):
        with pytest.raises(DataError, match="spectrum"):
            matrix.check(spoiled.astype(dtype))


def test_rows_come_in_the_wanted_type():
    rows = paper_rows(PaperMatrix(50, 10, 0.1), np.float32, scale=2.0)
    assert {block.dtype for block in rows.blocks} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("shape", "gap", "heavy"), [((10, 20), 0.1, 0), ((20, 5), 0.1, 0), ((40, 10), 0.0, 0), ((40, 10), 0.1, 35)]
)
def test_impossible_matrices(shape, gap, heavy):
    with pytest.raises(OptionError):
        PaperMatrix(*shape, gap, heavy=heavy)
