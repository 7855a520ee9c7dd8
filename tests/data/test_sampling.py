"""Drawing rows: as likely as they should be, mixed, counted, and the same for the same seed."""

from itertools import product

import numpy as np
import pytest
from data_cases import GATHERED, in_blocks, view_and_z, view_of

from helpers import eps
from vrpca import kernels
from vrpca.data.open import as_source
from vrpca.data.row_map import RowMap
from vrpca.data.sampling import DRAWN_AT_ONCE, passes_of_draws
from vrpca.data.view import View

pytestmark = pytest.mark.reference

OPTIONS = list(product((False, True), repeat=4))  # center, scale, weighted, transpose


def tolerance(view):
    return 100 * eps(view.dtype)


def drawn_rows(view, m, rng, sampling):
    """The numbers of the rows that are drawn, in order."""
    rows = np.arange(view.n)
    return np.concatenate([block.cut(rows)[order] for block, order in view.samples(m, rng, sampling)])


@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize(("center", "scale", "weighted", "transpose"), OPTIONS)
def test_importance_weights_are_unbiased(center, scale, weighted, transpose, sampling, rng):
    """sum_i p_i rho_i z_i z_i^T = A exactly, with p_i the probability of drawing row i."""
    view, Z, _ = view_and_z("C", center, scale, weighted, transpose, rng)
    rho = view.importance(sampling)
    if sampling == "uniform":
        assert rho is None
        return
    norms = view.row_norms()
    probability = norms / norms.sum()
    mean_step = (Z * (probability * rho)[:, None]).T @ Z
    np.testing.assert_allclose(mean_step, Z.T @ Z / len(Z), atol=1e-13)
    assert (rho * norms <= norms.mean() * (1 + 1e-12)).all()  # r becomes rbar: what norm sampling is for


@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize("kind", ["C", "csr", "blocks", "csr blocks"])
@pytest.mark.parametrize("m", [1, 2, 29, 30, 1000])
def test_every_block_gets_its_share_of_the_draws(kind, sampling, m, rng):
    view, _, _ = view_and_z(kind, True, False, False, False, rng)
    share = np.full(30, m / 30) if sampling == "uniform" else m * view.row_norms() / view.row_norms().sum()
    counts, expected = {}, {}
    for block, order in view.samples(m, rng, sampling):
        assert order.dtype == np.int64
        assert ((order >= 0) & (order < len(block.cut(share)))).all()
        start = block.where.start
        counts[start] = counts.get(start, 0) + len(order)
        expected[start] = block.cut(share).sum()
    assert sum(counts.values()) == m
    assert all(abs(counts[start] - expected[start]) <= 1 for start in counts)


def test_blocks_are_drawn_from_in_random_order(rng):
    source = in_blocks(rng.standard_normal((70, 3)), 7)
    view = View(source, RowMap(source.dtype), 1.0, 1)
    orders = [
        [b.where.start for b, _ in view.samples(70, np.random.default_rng(seed), "uniform")] for seed in (0, 0, 1)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(0, 70, 7)) != orders[0]


def test_long_epochs_are_drawn_in_pieces(rng):
    view, _, _ = view_and_z("C", True, False, False, False, rng)
    lengths = [len(order) for _, order in view.samples(2 * DRAWN_AT_ONCE + 5, rng, "uniform")]
    assert lengths == [DRAWN_AT_ONCE, DRAWN_AT_ONCE, 5]


def test_rows_of_norm_zero_are_never_drawn(rng):
    X = rng.standard_normal((40, 3))
    X[::2] = 0
    X[-1] = 0
    view = view_of(in_blocks(X, 10), center=False)
    assert set(drawn_rows(view, 5000, rng, "norm")) == set(range(1, 39, 2))
    assert (view.importance("norm")[::2] == 0).all()


@pytest.mark.parametrize("kind", ["blocks", *GATHERED])
def test_draws_repeat_with_their_seed(kind, rng):
    view, _, _ = view_and_z(kind, True, False, False, False, rng)
    for sampling in ("uniform", "norm"):
        first, second, other = (drawn_rows(view, 50, np.random.default_rng(seed), sampling) for seed in (3, 3, 4))
        assert first.tolist() == second.tolist() != other.tolist()


@pytest.mark.parametrize("sampling", ["uniform", "norm"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("kind", GATHERED)
def test_gathered_rows_are_those_of_z(kind, transpose, sampling, monkeypatch, rng):
    """The kernels are given the rows with the numbers that `cut` selects from any per-row array."""
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 6 * 8 * 10)
    view, Z, _ = view_and_z(kind, True, True, True, transpose, rng, n=40, d=6)
    numbers = np.arange(float(view.n))
    for block, order in view.samples(view.n, rng, sampling):
        W = np.ascontiguousarray(np.eye(view.d), dtype=view.dtype)
        rows = block.cut(numbers).astype(int)
        P = np.empty((len(rows), view.d), view.dtype)
        kernels.product(block.rows, W, np.zeros_like(W), P, 1)
        np.testing.assert_allclose(P, Z[rows], rtol=0, atol=tolerance(view) * np.sqrt(view.n))
        assert ((order >= 0) & (order < len(rows))).all()


@pytest.mark.parametrize("kind", GATHERED)
def test_draws_are_as_likely_as_they_should_be(kind, monkeypatch, rng):
    """Counts of 40000 draws against their expectation; runs of rows and a last run cut short must not show."""
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 6 * 8 * 10)
    view, _, _ = view_and_z(kind, True, False, False, False, rng)
    norms = view.row_norms()
    for sampling, share in (("uniform", np.full(30, 1 / 30)), ("norm", norms / norms.sum())):
        for m in (40000, 7):  # long epochs, and short ones that see a part of the rows
            times = 40000 // m
            counts = sum(np.bincount(drawn_rows(view, m, rng, sampling), minlength=30) for _ in range(times))
            assert counts.sum() == m * times
            assert (np.abs(counts - share * m * times) <= 6 * np.sqrt(m * times * share) + 1e-9).all()


@pytest.mark.parametrize("kind", GATHERED)
def test_gathered_blocks_are_mixed(kind, monkeypatch, rng):
    """Rows from everywhere meet in each block, so that sorted data do no harm."""
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 6 * 8 * 160)
    view, _, _ = view_and_z(kind, True, False, False, False, rng, n=1600)
    for sampling in ("uniform", "norm"):
        blocks = [block.cut(np.arange(1600)) for block, _ in view.samples(1600, rng, sampling)]
        assert len(blocks) > 1
        assert all(rows[0] < 400 and rows[-1] > 1200 for rows in blocks if len(rows) > 50)


def test_mapped_files_that_must_be_converted_are_read_in_order(tmp_path, rng):
    np.save(tmp_path / "X.npy", np.asfortranarray(rng.standard_normal((30, 6))))
    source = as_source(tmp_path / "X.npy")
    assert source.gather_rows == 0
    view = View(source, RowMap(source.dtype), 1.0, 1)
    assert all(isinstance(block.where, slice) for block, _ in view.samples(30, rng, "uniform"))


@pytest.mark.parametrize("kind", ["C", "csr", *GATHERED])
def test_a_sample_has_no_row_twice(kind, monkeypatch, rng):
    """Rows in memory: as many as asked for, sorted, themselves, and counted."""
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 6 * 8 * 10)
    view, Z, _ = view_and_z(kind, True, True, True, False, rng)
    numbers, X, fetched = view.source.sample(12, np.random.default_rng(1))
    assert len(numbers) == X.shape[0] == fetched == 12 and (np.diff(numbers) > 0).all()
    sample = view.sample(12, np.random.default_rng(1))
    assert view.rows_read == 12 and sample.n == 12 and sample.rows_read == 0
    W = np.ascontiguousarray(np.eye(6), dtype=view.dtype)
    P = np.zeros((12, 6), view.dtype)
    sample.product(W, P)
    np.testing.assert_allclose(P, Z[numbers], rtol=0, atol=tolerance(view) * np.sqrt(30))


@pytest.mark.parametrize("kind", ["blocks", "csr blocks"])
def test_a_sample_of_what_comes_in_blocks_is_a_few_blocks(kind, rng):
    view, Z, _ = view_and_z(kind, True, True, True, False, rng)
    numbers, _, fetched = view.source.sample(12, np.random.default_rng(1))
    assert fetched == len(numbers) and 12 <= fetched <= 12 + 6
    assert len(set(numbers.tolist())) == fetched
    sample = view.sample(12, np.random.default_rng(1))
    assert view.rows_read == fetched
    P = np.zeros((fetched, 6), view.dtype)
    sample.product(np.eye(6), P)
    np.testing.assert_allclose(P, Z[numbers], rtol=0, atol=tolerance(view) * np.sqrt(30))


@pytest.mark.parametrize("length", [10, 30])
def test_a_source_that_is_not_in_memory_is_read_block_by_block(length, rng):
    """What draws are going to cost is what they are counted as, also where the only block holds all rows."""
    X = rng.standard_normal((30, 4))
    view = view_of(in_blocks(X, length), center=False)
    for m in (7, 30, 100):
        before = view.rows_read
        assert len(drawn_rows(view, m, rng, "uniform")) == m
        assert view.rows_read - before == 30 * view.passes_of_samples(m) == 30 * passes_of_draws(view.source, m) == 30
    before = view.rows_read
    view.sample(12, rng)
    assert view.rows_read - before == max(length, 20)
