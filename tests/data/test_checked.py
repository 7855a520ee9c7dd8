"""Sources that break their promises: one error that names the source and the remedy, whatever the solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import Blocks, check_blocks, in_blocks

import vrpca
from vrpca.check import check
from vrpca.data.checked import CheckedSource
from vrpca.data.open import as_source
from vrpca.data.source import Source
from vrpca.errors import DataError

pytestmark = pytest.mark.reference
SOLVERS = ("gram", "krylov", "accelerated", "vr", "oja", "hybrid", "power")


def some_data(n=60, d=12):
    return np.random.default_rng(0).standard_normal((n, d)) * 0.8 ** np.arange(d) + 1


class Odd(Source):
    """Hands out what `change` makes of the list of blocks, in all passes or in all but the first."""

    def __init__(self, change, later=False, X=None, **attributes):
        self.X = some_data() if X is None else X
        self.shape, self.dtype, self.sparse = self.X.shape, self.X.dtype, sp.issparse(self.X)
        self.change, self.later, self.passes = change, later, 0
        vars(self).update(attributes)

    def blocks(self, rng=None):
        self.passes += 1
        good = [(start, self.X[start : start + 16]) for start in range(0, self.X.shape[0], 16)]
        return self.change(good) if self.passes > 1 or not self.later else good

    def transposed(self):
        return in_blocks(np.ascontiguousarray(self.X.T), 16)


def second(function):
    """Change the second block."""
    return lambda good: [good[0], (good[1][0], function(good[1][1])), *good[2:]]


def endless(good):
    while True:
        yield from good


ODD = {
    "None": (lambda good: None, r"Odd\.blocks returned None.*pairs"),
    "a number": (lambda good: [3], r"Odd\.blocks yielded a int.*pairs"),
    "blocks alone": (lambda good: [X for _, X in good], r"Odd\.blocks yielded a ndarray.*pairs"),
    "starts that are floats": (lambda good: [(float(start), X) for start, X in good], r"yielded a tuple.*pairs"),
    "starts that are None": (lambda good: [(None, X) for _, X in good], r"yielded a tuple.*pairs"),
    "no blocks": (lambda good: [], "60 rows, but its blocks have 0"),
    "a block is missing": (lambda good: good[:-1], "60 rows, but its blocks have 48"),
    "a block comes twice": (lambda good: [*good, good[1]], "row 16 twice"),
    "no end": (endless, "row 0 twice"),
    "starts that are all 0": (lambda good: [(0, X) for _, X in good], "row 0 twice"),
    "too many rows": (lambda good: [*good, (60, good[0][1])], "yielded rows 60 to 75"),
    "a negative start": (lambda good: [(-16, good[0][1]), *good[1:]], "yielded rows -16 to -1"),
    "rows that overlap": (lambda good: [good[0], (15, good[1][1]), *good[2:]], "left out row 16"),
    "rows that are missing": (second(lambda X: X[:-1]), "60 rows, but its blocks have 59"),
    "too few columns": (second(lambda X: X[:, :-1].copy()), r"12 features, but a block of Odd has shape \(16, 11\)"),
    "one dimension": (second(lambda X: X.ravel()), r"12 features, but a block of Odd has shape \(192,\)"),
    "another type": (second(lambda X: X.astype("f4")), r"type float32.*numpy\.ascontiguousarray"),
    "whole numbers": (second(lambda X: X.astype(int)), r"type int64.*numpy\.ascontiguousarray"),
    "another byte order": (second(lambda X: X.astype(">f8")), r"type >f8.*numpy\.ascontiguousarray"),
    "Fortran order": (second(np.asfortranarray), r"another order.*numpy\.ascontiguousarray"),
    "a list": (second(lambda X: X.tolist()), "is a list, not a C-ordered array of float64"),
    "masked": (second(np.ma.masked_array), "is a MaskedArray, not a C-ordered array"),
    "sparse": (second(sp.csr_array), "is a csr matrix, not a C-ordered array of float64.*`sparse`"),
    "NaN": (second(lambda X: np.where(X[3, 5] == X, np.nan, X)), r"NaN \(row 19, column 5\)"),
    "infinity": (second(lambda X: np.where(X[3, 5] == X, -np.inf, X)), r"infinity \(row 19, column 5\)"),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("later", [False, True], ids=["always", "later"])
@pytest.mark.parametrize("what", ODD)
def test_odd_blocks_are_named(what, later, solver):
    """At once or, where the first pass is as it should be, in the pass that is not."""
    change, message = ODD[what]
    source = Odd(change, later)
    with pytest.raises(DataError, match=message):
        vrpca.pca(source, 2, solver=solver, sampling="uniform", random_state=0)
    assert source.passes <= (3 if later else 1)


@pytest.mark.parametrize("what", ODD)
def test_odd_blocks_are_named_by_transform_and_check(what):
    change, message = ODD[what]
    model = vrpca.PCA(2, random_state=0).fit(some_data())
    for call in (model.transform, lambda X: check(model, X), vrpca.PCA(2).fit):
        with pytest.raises(DataError, match=message):
            call(Odd(change))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "change",
    [
        lambda good: [(start, 3 * X) for start, X in good],
        lambda good: [(start, np.roll(X, 1, axis=1)) for start, X in good],
        lambda good: [(start, X[::-1].copy()) for start, X in good],
        second(lambda X: np.vstack([X[:-1], 5 + X[-1:]])),
        second(lambda X: np.where(X[3, 5] == X, 0.9 * X, X)),
    ],
    ids=["other numbers", "other columns", "another order", "another row", "another entry"],
)
def test_rows_that_change_between_passes_are_noticed(change, solver):
    """The moments would be those of other data than the products."""
    with pytest.raises(DataError, match="Odd gave other rows than in the first pass"):
        vrpca.pca(Odd(change, later=True), 2, solver=solver, random_state=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mean", [0, 1000])
def test_rows_that_differ_by_rounding_are_the_same(dtype, mean, rng):
    """As those of sources that compute their rows anew for every pass."""
    X = (rng.standard_normal((400, 30)) * 0.8 ** np.arange(30) + mean).astype(dtype)

    def rounded(good):
        return [(s, (X * (1 + 8 * np.finfo(dtype).eps * rng.standard_normal(X.shape))).astype(dtype)) for s, X in good]

    found = vrpca.pca(Odd(rounded, X=X), 2, tol=1e-4, random_state=0, solver="krylov")
    truth = np.linalg.svd(X - X.mean(axis=0, dtype=float), compute_uv=False)[:2]
    np.testing.assert_allclose(found.s, truth, rtol=1e-3)


def test_a_new_fit_may_see_other_rows():
    """Passes of one fit are compared, not fits."""
    source = Odd(lambda good: good)
    first = vrpca.svd(source, 2, random_state=0).s
    source.X = 2 * source.X
    np.testing.assert_allclose(vrpca.svd(source, 2, random_state=0).s, 2 * first, rtol=1e-9)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"shape": None}, r"Odd\.shape must be two whole numbers"),
        ({"shape": (60,)}, r"Odd\.shape must be two whole numbers"),
        ({"shape": (60, 12, 1)}, r"Odd\.shape must be two whole numbers"),
        ({"shape": (60.0, 12.0)}, r"Odd\.shape must be two whole numbers"),
        ({"shape": (-60, 12)}, r"-60 sample\(s\)"),
        ({"shape": (0, 12)}, "0 sample"),
        ({"shape": (61, 12)}, "61 rows, but its blocks have 60"),
        ({"shape": (60, 13)}, "13 features"),
        ({"dtype": None}, r"Odd\.dtype must be"),
        ({"dtype": "abc"}, r"Odd\.dtype must be"),
        ({"dtype": np.dtype(int)}, r"Odd\.dtype must be"),
        ({"dtype": np.dtype(complex)}, r"Odd\.dtype must be"),
        ({"dtype": np.dtype(">f8")}, r"Odd\.dtype must be"),
        ({"dtype": np.dtype("f4")}, "type float64"),
        ({"column_names": ["a"]}, r"Odd\.column_names must be 12 names"),
        ({"column_names": list(range(12))}, r"Odd\.column_names must be 12 names"),
        ({"row_names": ["a"]}, r"Odd\.row_names must be 60 names"),
        ({"sparse": True}, "is a ndarray, not a CSR matrix of float64.*`sparse`"),
        ({"block": "abc"}, "is a str, not a C-ordered array"),
        ({"block": some_data(50)}, "asked for 60 rows, but gave 50"),
        ({"gather_rows": 8}, "Odd cannot gather rows: gather_rows is 8"),
        ({"gather_rows": 8, "gather": lambda numbers: some_data(3)}, r"asked for \d+ rows, but gave 3"),
        ({"gather_rows": 8, "gather": lambda numbers: some_data()[numbers].tolist()}, "is a list"),
    ],
)
def test_attributes_are_checked(attributes, message):
    with pytest.raises((DataError, TypeError), match=message):
        vrpca.svd(Odd(lambda good: good, **attributes), 2, solver="vr", random_state=0)


def test_names_of_a_source_are_kept():
    names = [f"column {j}" for j in range(12)]
    model = vrpca.PCA(2, random_state=0).fit(Odd(lambda good: good, column_names=names))
    assert list(model.feature_names_in_) == names


def test_a_type_may_be_named_by_its_class_and_a_shape_by_any_integers():
    source = as_source(Odd(lambda good: good, dtype=np.float64, shape=[np.int64(60), np.int32(12)]))
    assert source.dtype == np.dtype("f8") and source.shape == (60, 12)
    check_blocks(source, some_data())


@pytest.mark.parametrize("missing", ["shape", "dtype"])
def test_attributes_that_are_missing(missing):
    source = Odd(lambda good: good)
    delattr(source, missing)
    with pytest.raises(DataError, match=rf"Odd\.{missing} must be"):
        vrpca.svd(source, 2)


@pytest.mark.parametrize("solver", ["krylov", "vr", "gram"])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda X: None, "returned None"),
        (lambda X: X.T, "returned a ndarray"),
        (lambda X: in_blocks(X, 16), r"of shape \(12, 30\) and float64. It must have shape \(30, 12\)"),
        (
            lambda X: in_blocks(np.ascontiguousarray(X.T, "f4"), 16),
            r"float32. It must have shape \(30, 12\) and float64",
        ),
        (lambda X: in_blocks(np.ascontiguousarray(X[::-1].T), 16), r"gave other rows.*transposed counts, too"),
    ],
)
def test_what_transposed_returns_is_checked(other, message, solver):
    class Flipped(Blocks):
        def transposed(self):
            return other(self.parts[0])

    with pytest.raises(DataError, match=rf"Flipped.*{message}"):
        vrpca.pca(Flipped(some_data(12, 30)), 2, solver=solver, random_state=0)


def test_places_in_a_transposed_source_are_those_of_x():
    class Flipped(Blocks):
        def transposed(self):
            X = self.parts[0].T.copy()
            X[17, 5] = np.nan
            return in_blocks(X, 7)

    with pytest.raises(DataError, match=r"NaN \(column 17, row 5\)"):
        vrpca.pca(Flipped(some_data(12, 30)), 2, random_state=0)


def test_a_square_matrix_that_is_not_transposed_is_noticed():
    """Its shape is right."""

    class Square(Blocks):
        columnwise = True

        def transposed(self):
            return self

    with pytest.raises(DataError, match="Square gave other rows"):
        vrpca.pca(Square(some_data(30, 30)), 2, solver="krylov", random_state=0)


@pytest.mark.parametrize("solver", ["krylov", "vr", "gram"])
def test_sound_transposed_sources_pass(solver):
    for X in (some_data(12, 30), sp.csr_array(np.maximum(some_data(12, 30) - 1, 0))):
        found = vrpca.pca(in_blocks(X, 5), 2, solver=solver, tol=1e-10, max_passes=1000, random_state=0)
        dense = X.toarray() if sp.issparse(X) else X
        np.testing.assert_allclose(found.s, np.linalg.svd(dense - dense.mean(axis=0), compute_uv=False)[:2], rtol=1e-8)


# ------------------------------------------------------------------------------------------------------ sparse sources


def csr():
    return sp.csr_array(np.round(np.maximum(4 * some_data() - 4, 0)))


def with_indices(X, value):
    X = X.copy()
    X.indices[3] = value
    return X


@pytest.mark.parametrize("later", [False, True], ids=["always", "later"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X: X.tocsc(), "is a csc matrix, not a CSR matrix of float64"),
        (lambda X: X.toarray(), "is a ndarray, not a CSR matrix of float64"),
        (lambda X: X.astype("f4"), r"type float32.*X\.astype\(dtype\)"),
        (lambda X: with_indices(X, 12), "damaged csr matrix.*an index is 12"),
        (lambda X: with_indices(X, -(2**31)), "damaged csr matrix.*an index is -2147483648"),
        (lambda X: X * np.nan, r"NaN \(row 16, column"),
    ],
)
@pytest.mark.parametrize("solver", ["krylov", "vr", "gram"])
def test_odd_sparse_blocks_are_named(function, message, later, solver):
    with pytest.raises(DataError, match=message):
        vrpca.svd(Odd(second(function), later, X=csr()), 2, solver=solver, random_state=0)


def doubled(X):
    """Every entry as two halves."""
    return sp.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)


@pytest.mark.parametrize("solver", ["krylov", "vr", "gram"])
def test_duplicate_entries_of_sparse_blocks_are_summed(solver):
    """Squares of their parts would be the wrong variance."""
    found = vrpca.pca(Odd(second(doubled), X=csr()), 2, solver=solver, tol=1e-10, max_passes=1000, random_state=0)
    X = csr().toarray()
    np.testing.assert_allclose(found.s, np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:2], rtol=1e-8)


def test_empty_blocks_and_any_order_of_blocks_are_fine():
    source = Odd(lambda good: [*good[2:], (0, good[0][1][:0]), good[1], good[0], (60, good[0][1][:0])])
    np.testing.assert_allclose(vrpca.svd(source, 2).s, np.linalg.svd(some_data(), compute_uv=False)[:2], rtol=1e-6)


def test_numbers_whose_sums_overflow_are_no_infinities():
    X = (some_data() * 1e37).astype(np.float32)
    found = vrpca.svd(Odd(lambda good: good, X=X), 2, random_state=0)
    np.testing.assert_allclose(found.s, np.linalg.svd(X.astype(float), compute_uv=False)[:2], rtol=1e-4)


def test_an_error_of_the_source_is_not_hidden():
    def lost(good):
        yield good[0]
        raise OSError("the network is down")

    with pytest.raises(OSError, match="the network is down"):
        vrpca.svd(Odd(lost), 2)


def test_many_rows_are_sampled_alike_on_both_sides(monkeypatch):
    """Of the matrix and of its transpose, whatever the blocks."""
    monkeypatch.setattr("vrpca.data.checked.SAMPLED", 4)
    X = some_data(60, 40)
    source = as_source(in_blocks(X, 7))
    list(source.blocks())
    list(source.transposed().blocks())
    list(CheckedSource(in_blocks(np.ascontiguousarray(X.T), 11), source).blocks())
    X[::3] *= 2
    with pytest.raises(DataError, match="gave other rows"):
        list(source.blocks())
