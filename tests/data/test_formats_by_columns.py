"""Data that are stored by columns: moments, products, scores and plans come from walks over the transposed matrix."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import Blocks
from format_cases import assert_same_answer, matrix

import vrpca
from vrpca.data.checked import CheckedSource
from vrpca.data.first_pass import ColumnMoments, MomentSum, Problem
from vrpca.data.open import as_source
from vrpca.data.view import ColumnView, View
from vrpca.errors import DataError, OptionError
from vrpca.options import Options
from vrpca.plan import make_plan
from vrpca.scores import ScoreColumns, scores


class Columns(Blocks):
    """A source of given rows whose passes over rows must not happen."""

    by_columns = True

    def blocks(self, rng=None):
        raise AssertionError("its rows were walked")

    def transposed(self):
        X = sp.vstack(self.parts) if self.sparse else np.vstack(self.parts)
        T = sp.csr_array(X.T) if self.sparse else np.ascontiguousarray(X.T)
        return Walked(*(T[lo : lo + 7] for lo in range(0, T.shape[0], 7)))


class Walked(Blocks):
    """The transpose, which can be walked and whose own transpose cannot."""

    by_rows = True

    def transposed(self):
        X = sp.vstack(self.parts) if self.sparse else np.vstack(self.parts)
        return Columns(sp.csr_array(X.T) if self.sparse else np.ascontiguousarray(X.T))


KINDS = [np.asarray, sp.csr_array]


def problems(rng, X, source):
    n = X.shape[0]
    weights = rng.random(n)
    weights[::5] = 0
    for w in (None, weights):
        for center, scale in ((False, False), (True, False), (True, True)):
            yield Problem(source, w, center, scale, 1), Problem(as_source(X), w, center, scale, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("factor", [1.0, 1e-30, 1e25])
def test_moments_are_those_of_rows(rng, kind, dtype, factor):
    X = kind(matrix(rng).astype(dtype) * dtype(factor))
    for by_columns, by_rows in problems(rng, X, Columns(X)):
        found, wanted = by_columns.first_pass().moments, by_rows.first_pass().moments
        ratio = wanted.factor / found.factor
        np.testing.assert_allclose(found.mean * ratio, wanted.mean, rtol=1e-12, atol=1e-12 * np.abs(wanted.mean).max())
        np.testing.assert_allclose(found.variance * ratio**2, wanted.variance, rtol=1e-10)
        assert found.total == pytest.approx(wanted.total)


@pytest.mark.parametrize("factor", [1e200, 1e-200])
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_numbers(rng, kind, factor):
    X = matrix(rng) * factor
    X[:, :7] = 0  # the first block says nothing of the others
    found = Problem(Columns(kind(X)), None, True, False, 1).first_pass().moments
    wanted = Problem(as_source(X), None, True, False, 1).first_pass().moments
    np.testing.assert_allclose(found.data_mean, wanted.data_mean, rtol=1e-10)
    assert_same_answer(Columns(kind(X)), X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_its_place(rng, kind, bad):
    X = matrix(rng)
    X[17, 23] = bad
    with pytest.raises(DataError, match=r"\(column 23, row 17\)"):
        vrpca.pca(Columns(kind(X)), 2)
    weights = np.ones(len(X))
    weights[17] = 0
    with pytest.raises(DataError, match=r"\(column 23, row 17\)"):
        vrpca.pca(Columns(kind(X)), 2, sample_weight=weights)
    model = vrpca.PCA(2).fit(matrix(rng))
    with pytest.raises(DataError, match=r"\(column 23, row 17\)"):
        model.transform(Columns(kind(X)))


@pytest.mark.parametrize("solver", ["auto", "krylov", "accelerated", "power", "vr"])
@pytest.mark.parametrize("shape", [(120, 30), (30, 120)])
def test_no_solver_walks_rows(rng, solver, shape):
    X = matrix(rng, *shape)
    found = vrpca.pca(Columns(X), 1, solver=solver, tol=1e-6, random_state=0, max_passes=1000)
    assert found.s[0] == pytest.approx(np.linalg.svd(X - X.mean(axis=0))[1][0], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_warm_starts_and_fractions(rng, kind):
    X = matrix(rng)
    source = Columns(kind(X))
    model = vrpca.PCA(3, warm_start=True, random_state=0).fit(source)
    assert model.fit(source).converged_
    assert vrpca.PCA(0.9, random_state=0).fit(source).n_components_ == vrpca.PCA(0.9).fit(X).n_components_


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_rows(rng, kind):
    X = matrix(rng)
    components, mean, scale = rng.standard_normal((3, 30)), X.mean(axis=0), X.std(axis=0)
    for m, s in ((None, None), (mean, None), (mean, scale)):
        found = scores(CheckedSource(Columns(kind(X))), components, m, s)
        np.testing.assert_allclose(found, scores(as_source(kind(X)), components, m, s), atol=1e-12)


def test_a_view_by_columns_has_the_products_of_rows(rng):
    for X in (matrix(rng), sp.csr_array(matrix(rng))):
        for by_columns, by_rows in problems(rng, X, Columns(X)):
            view = View.of(by_columns, by_columns.first_pass().moments)
            plain = View.of(by_rows, by_rows.first_pass().moments)
            W = rng.standard_normal((30, 4))
            P, wanted = np.zeros((120, 4)), np.zeros((120, 4))
            assert isinstance(view, ColumnView)
            np.testing.assert_allclose(view.product(W, P), plain.product(W, wanted), atol=1e-12)
            np.testing.assert_allclose(P, wanted, atol=1e-11)
            np.testing.assert_allclose(view.projections(W), wanted, atol=1e-11)
            assert view.rows_read == 3 * view.n and plain.rows_read == plain.n


def test_accumulators_merge_and_pickle(rng):
    X = matrix(rng)
    problem = Problem(Columns(X), None, True, False, 1)
    parts = [ColumnMoments(problem) for _ in range(3)]
    sums = [ScoreColumns(np.eye(30)[:, :2], X.mean(axis=0), np.zeros((120, 2))) for _ in range(3)]
    for number in range(3):
        for each in (parts, sums):
            each[number].add(10 * number, np.ascontiguousarray(X.T[10 * number : 10 * number + 10]))
    for each in (parts, sums):
        for other in each[1:]:
            each[0].merge(pickle.loads(pickle.dumps(other)))
    np.testing.assert_allclose(parts[0].result().variance, X.var(axis=0))
    np.testing.assert_allclose(sums[0].result(), (X - X.mean(axis=0))[:, :2], atol=1e-12)
    with pytest.raises(DataError, match="has 30 columns, but its blocks have 10"):
        parts[1].result()
    with pytest.raises(DataError, match="has 30 columns, but its blocks have 10"):
        sums[1].result()


def test_gram_needs_walks_over_the_longer_side(rng):
    tall, wide = Columns(matrix(rng, 120, 30)), Columns(matrix(rng, 30, 120))
    with pytest.raises(OptionError, match=r"solver='gram' cannot be used: .* store the data by rows"):
        vrpca.pca(tall, 2, solver="gram")
    assert vrpca.pca(wide, 2, solver="gram").certificate.kind == "exact"
    rows = Walked(matrix(rng, 30, 120))
    with pytest.raises(OptionError, match=r"store the data by columns"):
        vrpca.pca(rows, 2, solver="gram")
    plan = make_plan(Options(), as_source(tall), 2, False)
    assert plan.name == "accelerated" and plan.transpose and not plan.may_switch(Options())
    assert not make_plan(Options(), as_source(rows), 2, False).transpose


def test_moments_by_rows_are_a_sum_still(rng):
    """Data in memory keep their own accumulator, bit for bit."""
    X = matrix(rng)
    problem = Problem(as_source(X), None, True, False, 1)
    assert type(problem.first_pass().sums) is MomentSum
