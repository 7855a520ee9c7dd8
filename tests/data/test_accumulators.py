"""The contract of an accumulator: it pickles, and copies that saw a part of the rows merge to one that saw them all."""

import pickle
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import Blocks

import vrpca
from helpers import densify, eps, random_orthonormal, sine
from vrpca.data import gram
from vrpca.data.first_pass import FirstProductSum, LargestEntry, MomentSum, column_moments
from vrpca.data.gram import GramSum, SquareSum
from vrpca.data.row_map import RowMap
from vrpca.data.stream import MappedStream, StreamSum
from vrpca.data.view import KernelRows, Problem, ProductSum, RowNorms
from vrpca.errors import DataError

pytestmark = pytest.mark.reference

D, K = 12, 3  # columns of the data, and directions that stand out of the noise
LENGTHS = (40, 1, 300, 7, 64, 150)  # rows of the blocks
TALL = sum(LENGTHS)
COL_SCALE = np.linspace(0.5, 1.5, D)
SIZES = {
    "alike": [1, 1, 1, 1, 1, 1],
    "apart": [1e-6, 1e3, 1, 1e-3, 1e6, 1e-6],
    "shrinking": [1e6, 1e4, 1e2, 1, 1e-3, 1e-6],
}


@dataclass
class Data:
    """Blocks with their first rows, the weights, and whether rows are centred."""

    blocks: list[tuple[int, Any]]
    dtype: np.dtype
    weights: np.ndarray | None
    center: bool
    directions: np.ndarray  # D x K

    @property
    def problem(self):
        return Problem(Blocks(*(X for _, X in self.blocks)), self.weights, self.center, False, 2)

    @property
    def X(self):
        return np.vstack([densify(X) for _, X in self.blocks])

    @property
    def mean(self):
        return np.average(self.X, axis=0, weights=self.weights)

    @property
    def size(self):
        """The largest entry of a row that counts."""
        return np.abs(self.X if self.weights is None else self.X[self.weights > 0]).max()

    @property
    def trace(self):
        """``tr A`` in the units of the data."""
        return np.average((self.X - self.mean * self.center) ** 2, axis=0, weights=self.weights).sum()

    @property
    def row_map(self):
        """Rows scaled and weighted, and shifted by the means if they are centred."""
        shift = COL_SCALE * self.mean if self.center else None
        root = None if self.weights is None else np.sqrt(self.weights)
        return RowMap(self.dtype, COL_SCALE, shift, root, None, 3.0 / self.size)


def make_data(fmt, dtype, weighted, center, sizes):
    """Blocks of these sizes. Their rows differ in all directions that stand out but the last: there, means differ."""
    rng = np.random.default_rng(7)
    directions = random_orthonormal(D, K, rng)
    blocks, start = [], 0
    for length, size in zip(LENGTHS, SIZES[sizes], strict=True):
        along = 20 * rng.standard_normal((length, K)) * [1, 1, 0] + [5, -5, 30 * (-1) ** len(blocks)]
        X = along @ directions.T + 0.1 * rng.standard_normal((length, D))
        X = (size * X).astype(dtype)
        blocks.append((start, sp.csr_array(X) if fmt == "sparse" else X))
        start += length
    weights = None
    if weighted:
        weights = rng.uniform(0.2, 3, TALL) * (rng.random(TALL) < 0.8)
        weights[: LENGTHS[0]] = 0  # the first block does not count at all
    return Data(blocks, np.dtype(dtype), weights, center, directions)


def leading(basis):
    return basis[:, :K]


def moments(found, data):
    m = found.moments
    return {"total": m.total, "mean": m.mean / m.factor, "variance": m.variance / m.factor**2}


def view_terms(found, data):
    """What a view makes of the finding: it must not depend on units and centres that first rows have set."""
    return found.sums.finding(found.moments, None, data.trace, None)


# name: (the empty accumulator, what is to be compared: numbers by name, or a basis)
ACCUMULATORS = {
    "MomentSum": (lambda data: MomentSum(data.problem), moments),
    "LargestEntry": (lambda data: LargestEntry(), lambda largest, data: {"largest": largest}),
    "GramSum": (
        lambda data: GramSum(data.problem),
        lambda found, data: moments(found, data) | {"A": view_terms(found, data).A},
    ),
    "FirstProductSum": (
        lambda data: FirstProductSum(
            data.problem,
            np.ascontiguousarray(random_orthonormal(D, 4, np.random.default_rng(1)), data.dtype),
            data.mean + 0.01 * data.size if data.center else None,
            11,
            np.linspace(1, 2, D).astype(data.dtype),
        ),
        lambda found, data: moments(found, data) | vars(view_terms(found, data)) | {"rows sampled": found.rows_sampled},
    ),
    "StreamSum": (
        lambda data: StreamSum(data.problem, 8, np.random.default_rng(2)),
        lambda found, data: moments(found, data) | {"basis": leading(view_terms(found, data).vectors)},
    ),
    "MappedStream": (
        lambda data: MappedStream(data.row_map, 8, np.random.default_rng(3), 1),
        lambda basis, data: {"basis": leading(basis) / COL_SCALE[:, None]},
    ),
    "ProductSum": (
        lambda data: ProductSum(
            KernelRows(data.row_map),
            np.ascontiguousarray(random_orthonormal(D, 4, np.random.default_rng(4)), data.dtype),
            2,
        ),
        lambda found, data: {"U": found[0]},
    ),
    "SquareSum": (lambda data: SquareSum(data.row_map, D, True, 2), lambda square, data: {"square": square}),
    "RowNorms": (lambda data: RowNorms(KernelRows(data.row_map), TALL), lambda norms, data: {"norms": norms}),
}


def fed(accumulator, blocks):
    for start, X in blocks:
        accumulator.add(start, X)
    return accumulator


def sent(accumulator):
    """The accumulator as it arrives in another process."""
    return pickle.loads(pickle.dumps(accumulator))


def merged(first, *others):
    for other in others:
        first.merge(other)
    return first


def in_a_chain(empty, blocks):
    return merged(sent(empty), *(sent(fed(sent(empty), [block])) for block in blocks))


def backwards(empty, blocks):
    return in_a_chain(empty, blocks[::-1])


def in_a_tree(empty, blocks):
    copies = [sent(fed(sent(empty), [block])) for block in blocks]
    while len(copies) > 1:
        copies = [sent(merged(*copies[i : i + 2])) for i in range(0, len(copies), 2)]
    return copies[0]


def with_empty_ones(empty, blocks):
    parts = [sent(empty), fed(sent(empty), blocks[:2]), sent(empty), fed(sent(empty), blocks[2:]), sent(empty)]
    return reduce(merged, parts)


def some_added_after_merging(empty, blocks):
    first = merged(fed(sent(empty), blocks[1:2]), fed(sent(empty), blocks[2:4]))
    return fed(sent(merged(sent(empty), first)), blocks[4:] + blocks[:1])


WAYS = (in_a_chain, backwards, in_a_tree, with_empty_ones, some_added_after_merging)


def assert_same(found, expected, data):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name == "basis":
            assert value.shape == found[name].shape == (D, K)
            # A stream forgets a little with every step, and the early ones are centred by an early mean.
            assert sine(found[name], data.directions) < 0.05
            assert sine(value, data.directions) < 0.05
            continue
        in_double = name in ("total", "mean", "variance", "norms", "square")
        # What is subtracted may be as large as the largest entry, or its square; everything else as the result.
        size = {"mean": data.size, "variance": data.size**2, "A": data.size**2 / data.trace}
        size["U"] = max(size["A"], np.abs(value).max())
        tolerance = 20 * eps(np.float64 if in_double else data.dtype) * size.get(name, np.abs(value).max())
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("fmt", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("center", [False, True], ids=["uncentred", "centred"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", ACCUMULATORS)
def test_the_parts_make_the_whole(name, sizes, center, weighted, dtype, fmt, monkeypatch):
    monkeypatch.setattr(gram, "FAR", 1e9)  # however much larger the first rows are: sums that are refused tell nothing
    data = make_data(fmt, dtype, weighted, center, sizes)
    make, terms = ACCUMULATORS[name]
    empty = make(data)
    pickled = pickle.dumps(empty)
    expected = terms(fed(make(data), data.blocks).result(), data)
    for way in WAYS:
        assert_same(terms(way(empty, data.blocks).result(), data), expected, data)
    assert pickle.dumps(empty) == pickled, "copies must not share anything with the empty accumulator"


def test_the_products_of_rows_merge_as_well():
    """Each copy fills in the rows of P that it has seen; room for the result is used where it is given."""
    data = make_data("dense", np.float64, True, True, "alike")
    W = random_orthonormal(D, 4, np.random.default_rng(4)).copy()
    P, out = np.zeros((TALL, 4)), np.full((D, 4), np.nan)
    whole = fed(ProductSum(KernelRows(data.row_map), W, 2, np.zeros((TALL, 4))), data.blocks)
    for way in WAYS:
        found = way(ProductSum(KernelRows(data.row_map), W, 2, np.zeros((TALL, 4))), data.blocks)
        np.testing.assert_allclose(found.out, whole.out, rtol=1e-12)
        np.testing.assert_array_equal(found.P, whole.P)
    mine = merged(ProductSum(KernelRows(data.row_map), W, 2, P, out), sent(whole))
    assert mine.result()[0] is out and mine.result()[1] is P
    np.testing.assert_array_equal(out, whole.out)
    np.testing.assert_array_equal(P, whole.P)


def extreme(size, rng):
    return size * (1 + rng.standard_normal((20, D)))


FIRST = {
    "MomentSum": MomentSum,
    "GramSum": GramSum,
    "FirstProductSum": lambda problem: FirstProductSum(problem, np.eye(D)[:, :4].copy(), np.ones(D), 0, np.eye(D)[4]),
    "StreamSum": lambda problem: StreamSum(problem, 4, np.random.default_rng(0)),
}


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize(
    "sizes", [(1e-300, 1e300), (1e-200, 1.0), (1.0, 1e-200), (1e200, 1.0), (1.0, 1e200), (0.0, 1e170)]
)
def test_sizes_too_different_to_be_summed_up_are_noticed(name, sizes, rng):
    """As in one accumulator: the sums overflow, silently, and the first pass reads once more; or the small ones go."""
    X = [extreme(size, rng) for size in sizes]
    source = Scattered(*X)
    problem = Problem(source, None, True, False, 1)
    accumulator = merged(fed(FIRST[name](problem), [(0, X[0])]), sent(fed(FIRST[name](problem), [(20, X[1])])))
    found = accumulator.result().moments
    with np.errstate(over="ignore", invalid="ignore"):
        summed_up = np.isfinite(found.second).all()
    if summed_up:
        np.testing.assert_allclose(found.data_mean, np.vstack(X).mean(axis=0), rtol=1e-12)
    first_pass = problem.first_pass(FIRST[name](problem))
    truth = column_moments(Blocks(*X), None, 1)
    assert first_pass.moments.passes == source.readings
    np.testing.assert_allclose(first_pass.moments.data_mean, truth.data_mean, rtol=1e-12)
    ratio = first_pass.moments.factor / truth.factor
    np.testing.assert_allclose(first_pass.moments.variance, truth.variance * ratio**2, rtol=1e-12)


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("fmt", ["dense", "sparse"])
def test_what_is_not_finite_is_not_lost(name, weight, fmt, rng):
    """One copy sees it, and the row that it has in the source is named; rows without weight are no exception."""
    X, weights = rng.standard_normal((60, D)), np.ones(60)
    X[47, 5], weights[47] = np.nan, weight
    parts = [X[:20], X[20:40], X[40:]]
    source = Scattered(*(map(sp.csr_array, parts) if fmt == "sparse" else parts))
    problem = Problem(source, weights, True, False, 1)
    with pytest.raises(DataError, match=r"NaN \(row 47, column 5\)"):
        problem.first_pass(FIRST[name](problem))


class Scattered(Blocks):
    """Blocks that lie apart, as on a cluster: each feeds a copy of its own, and the copies are merged in a tree."""

    def reduce(self, accumulator, rng=None):
        return in_a_tree(sent(accumulator), list(self.blocks(rng)))


@pytest.mark.parametrize("center", [False, True], ids=["uncentred", "centred"])
@pytest.mark.parametrize("fmt", ["dense", "sparse"])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "gram"},
        {"solver": "krylov"},
        {"solver": "accelerated"},
        {"solver": "accelerated", "cost": "passes"},
        {"solver": "accelerated", "cost": "passes", "scale": True},
        {"solver": "vr"},
        {"solver": "vr", "sampling": "norm"},
        {"solver": "power", "certificate": "probabilistic"},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_solvers_do_not_know_where_rows_lie(options, fmt, center, rng):
    X = rng.standard_normal((700, 20)) * 0.6 ** np.arange(20) + np.repeat(rng.standard_normal((7, 20)), 100, axis=0) / 3
    weights = rng.uniform(0.5, 2, 700)
    parts = [sp.csr_array(part) if fmt == "sparse" else part for part in np.split(X, [100, 200, 450, 451])]
    options = options | {"tol": 1e-9, "max_passes": 500, "random_state": 0, "sample_weight": weights}
    found = vrpca.svd(Scattered(*parts), 2, center=center, **options)
    plain = vrpca.svd(Blocks(*parts), 2, center=center, **options)
    assert found.converged and found.n_passes == pytest.approx(plain.n_passes, abs=3)
    np.testing.assert_allclose(found.s, plain.s, rtol=1e-8)
    np.testing.assert_allclose(found.Vt, plain.Vt, atol=1e-3)
    np.testing.assert_allclose(found.U, plain.U, atol=1e-3)
