"""Sparse matrices in memory with damaged index arrays: an error names the cause before anything follows them."""

from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from helpers import run_python, sparse_matrix
from vrpca.data.memory import sparse_source
from vrpca.data.open import as_source
from vrpca.errors import DataError
from vrpca.kernels import NATIVE

pytestmark = pytest.mark.reference

COMPRESSED = {
    "csr": sp.csr_array,
    "csr matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "csc matrix": sp.csc_matrix,
    "bsr": lambda X: sp.bsr_array(X, blocksize=(2, 2)),
    "bsr 1x1": lambda X: sp.bsr_array(X, blocksize=(1, 1)),
}


def beyond_the_end(X):
    X.indptr[-1] += 1
    return "indptr ends at"


def far_beyond_the_end(X):
    X.indptr[-1] = 2**31 - 1
    return "indptr ends at 2147483647"


def far_beyond_the_end_in_between(X):
    X.indptr[3] = 2**31 - 1
    return "indptr does not start at 0, or falls"


def falling(X):
    X.indptr[1], X.indptr[2] = X.indptr[2], X.indptr[1]
    return "indptr does not start at 0, or falls"


def negative_start(X):
    X.indptr[0] = -1
    return "indptr does not start at 0, or falls"


def late_start(X):
    X.indptr[0] = 1
    return "indptr does not start at 0, or falls"


def too_short(X):
    X.indptr = X.indptr[:-1]
    return r"indptr has \d+ entries, not \d+"


def too_long(X):
    X.indptr = np.append(X.indptr, X.indptr[-1])
    return r"indptr has \d+ entries, not \d+"


def no_indptr(X):
    X.indptr = X.indptr[:0]
    return r"indptr has 0 entries, not \d+"


def too_few_values(X):
    X.data = X.data[:-1]
    return "indptr ends at"


def too_few_indices(X):
    X.indices = X.indices[:-1]
    return "indptr ends at"


def negative_index(X):
    X.indices[len(X.indices) // 2] = -1
    return r"an index is -1, but it must lie in 0\.\."


def index_too_large_by_one(X):
    across = X.shape[0] if X.format == "csc" else X.shape[1] // (X.blocksize[1] if X.format == "bsr" else 1)
    X.indices[-1] = across
    return rf"an index is {across}, but it must lie in 0\.\.{across - 1}"


def index_far_too_large(X):
    X.indices[0] = 2**31 - 1
    return "an index is 2147483647"


def indices_that_are_no_numbers(X):
    X.indices = X.indices.astype(float)
    return "indices is not a plain array of whole numbers"


def swapped_bytes(X):
    X.indptr = X.indptr.astype(X.indptr.dtype.newbyteorder())
    return "indptr is not a plain array of whole numbers"


def a_column_of_indices(X):
    X.indices = X.indices[:, None]
    return "indices is not a plain array of whole numbers"


def values_in_a_table(X):
    X.data = X.data[..., None]
    return "dimensions"


DAMAGES = (
    beyond_the_end,
    far_beyond_the_end,
    far_beyond_the_end_in_between,
    falling,
    negative_start,
    late_start,
    too_short,
    too_long,
    no_indptr,
    too_few_values,
    too_few_indices,
    negative_index,
    index_too_large_by_one,
    index_far_too_large,
    indices_that_are_no_numbers,
    swapped_bytes,
    a_column_of_indices,
    values_in_a_table,
)


def sound(fmt, index, dtype=np.float64):
    """A matrix with at least two entries in every row and column."""
    X = sparse_matrix(12, 8, 0.4, np.random.default_rng(3))
    X[np.arange(12), np.arange(12) % 8] = X[np.arange(12), (np.arange(12) + 1) % 8] = 1
    X = COMPRESSED[fmt](X.astype(dtype))
    X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    return X


@pytest.fixture(scope="module")
def model():
    return vrpca.PCA(2, random_state=0).fit(np.random.default_rng(0).standard_normal((30, 8)))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("fmt", COMPRESSED)
def test_damage_is_named(fmt, index, damage, model):
    """In the same words whatever is to be done with the matrix, and the matrix stays as it was."""
    X = sound(fmt, index)
    message = damage(X)
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    for call in (lambda X: vrpca.pca(X, 2), lambda X: vrpca.svd(X, 2), model.transform, vrpca.PCA(2).fit, as_source):
        with pytest.raises(DataError, match=rf"X is a damaged {X.format} matrix of shape \(12, 8\): .*{message}"):
            call(X)
    for part, old in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("damage", [falling, index_too_large_by_one, beyond_the_end])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool])
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr"])
def test_damage_of_unsigned_indices(fmt, index, dtype, damage):
    """Differences of unsigned numbers do not show that they fall."""
    X = sound(fmt, index, dtype)
    with pytest.raises(DataError, match=damage(X)):
        as_source(X)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("row", 12, r"an index is 12, but it must lie in 0\.\.11"),
        ("row", -1, r"an index is -1, but it must lie in 0\.\.11"),
        ("col", 2**31 - 1, r"an index is 2147483647, but it must lie in 0\.\.7"),
        ("col", -5, r"an index is -5, but it must lie in 0\.\.7"),
        ("data", None, "there are 3 rows, 3 columns and 2 values of entries"),
    ],
)
@pytest.mark.parametrize("make", [sp.coo_array, sp.coo_matrix])
def test_damaged_triplets(make, part, value, message):
    X = make((np.ones(3), (np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32))), shape=(12, 8))
    if value is None:
        X.data = X.data[:2]
    else:
        getattr(X, part)[1] = value
    with pytest.raises(DataError, match=message):
        vrpca.svd(X, 2)


@pytest.mark.parametrize(
    ("columns", "values", "message"),
    [
        ([8], [1.0], r"an index is 8, but it must lie in 0\.\.7"),
        ([-1], [1.0], r"an index is -1, but it must lie in 0\.\.7"),
        ([0, 1, 2], [1.0], "more or fewer values than columns"),
        ([0], [1.0, 2.0], "more or fewer values than columns"),
        ([0], ["abc"], "could not convert"),
        ([0], [[1.0, 2.0]], "sequence"),
        ([0.5], [1.0], "a column is no whole number"),
        ([2**70], [1.0], "a column is no whole number"),
        (None, None, "NoneType"),
    ],
)
@pytest.mark.parametrize("make", [sp.lil_array, sp.lil_matrix])
def test_damaged_lists(make, columns, values, message):
    X = make(np.eye(12, 8))
    X.rows[3], X.data[3] = columns, values
    with pytest.raises(DataError, match=rf"X is a damaged .* matrix of shape \(12, 8\): .*{message}"):
        vrpca.svd(X, 2)


@pytest.mark.parametrize("part", ["rows", "data"])
def test_too_few_lists(part):
    X = sp.lil_array(np.eye(12, 8))
    setattr(X, part, getattr(X, part)[:-1])
    with pytest.raises(DataError, match="11 lists"):
        vrpca.svd(X, 2)


def test_sound_lists_are_fine():
    X = np.round(4 * sparse_matrix(12, 8, 0.4, np.random.default_rng(3))).astype(np.int8)
    X[3] = 0
    np.testing.assert_array_equal(sparse_source(sp.lil_array(X)).X.toarray(), X)
    with pytest.raises(DataError, match="zero everywhere"):
        vrpca.svd(sp.lil_array((12, 8)), 2)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("offsets", [0, 1], "2 different offsets for 3 diagonals"),
        ("offsets", [0, 1, 1], "2 different offsets for 3 diagonals"),
        ("offsets", [0, 1, 2**40], "an offset has more than 32 bits"),
        ("offsets", [0.0, 1.0, 2.0], "offsets is not a plain array of whole numbers"),
        ("data", np.ones(36), "wrong number of dimensions"),
        ("data", np.ones((2, 12)), "3 different offsets for 2 diagonals"),
    ],
)
@pytest.mark.parametrize("make", [sp.dia_array, sp.dia_matrix])
def test_damaged_diagonals(make, part, value, message):
    X = make((np.ones((3, 12)), [0, 1, 2]), shape=(12, 8))
    setattr(X, part, np.asarray(value))
    with pytest.raises(DataError, match=rf"X is a damaged dia matrix of shape \(12, 8\): .*{message}"):
        vrpca.svd(X, 2)


def test_a_damaged_dictionary():
    X = sp.dok_array(np.eye(12, 8))
    X._dict[5, 1000] = 1.0
    with pytest.raises(DataError, match="damaged dok matrix"):
        vrpca.svd(X, 2)


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (5, 2), (2, 3)])
def test_blocks_that_do_not_divide_the_matrix(shape):
    X = sp.bsr_array(np.eye(12, 8), blocksize=(2, 2))
    X.data = np.ones((len(X.data), *shape))
    with pytest.raises(DataError, match="does not divide into blocks of shape"):
        vrpca.svd(X, 2)


@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr", "coo", "dia"])
def test_values_in_a_list(fmt):
    X = sp.coo_array(np.eye(12, 8)).asformat(fmt)
    X.data = X.data.tolist()
    with pytest.raises(DataError, match="its values are no array"):
        vrpca.svd(X, 2)


@pytest.mark.parametrize("dtype", ["f2", ">f4", ">f8", ">i4"])
@pytest.mark.parametrize("solver", ["vr", "krylov"])
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
def test_values_that_scipy_does_not_know(fmt, solver, dtype, monkeypatch):
    """Half floats and the other byte order, also where rows are gathered."""
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 256)
    plain = np.round(4 * sparse_matrix(60, 8, 0.4, np.random.default_rng(3)))
    X = sp.coo_array(plain).asformat(fmt)
    X.data = X.data.astype(dtype)
    found = vrpca.svd(X, 2, solver=solver, tol=1e-5, random_state=0, max_passes=500)
    np.testing.assert_allclose(found.s, np.linalg.svd(plain, compute_uv=False)[:2], rtol=1e-4)
    assert X.data.dtype == dtype


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("fmt", COMPRESSED)
def test_room_behind_the_last_entry_is_fine(fmt, index, model):
    """scipy leaves room there; what lies in it is not looked at."""
    plain, X = sound(fmt, index), sound(fmt, index)
    X.data = np.concatenate([X.data, np.full((5, *X.data.shape[1:]), np.nan)])
    X.indices = np.append(X.indices, np.array([-1, 2**31 - 1, 0, -7, 10**6], index))
    found, expected = (vrpca.pca(data, 2, random_state=0) for data in (X, plain))
    np.testing.assert_array_equal(found.Vt, expected.Vt)
    np.testing.assert_array_equal(model.transform(X), model.transform(plain))


@pytest.mark.parametrize("room", ["data", "indices"])
def test_room_in_one_array_only(room):
    X, plain = sound("csr", np.int32), sound("csr", np.int32)
    setattr(X, room, np.append(getattr(X, room), getattr(X, room)[:4]))
    np.testing.assert_array_equal(vrpca.svd(X, 2).Vt, vrpca.svd(plain, 2).Vt)


@pytest.mark.parametrize(
    "types", [("i4", "i8"), ("i8", "i4"), ("u4", "u4"), ("u8", "u8"), ("u1", "i4"), ("u2", "u8"), ("i2", "i2")]
)
@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr"])
def test_index_arrays_of_other_types_are_fine(fmt, types):
    X, plain = sound(fmt, np.int32), sound(fmt, np.int32)
    X.indices, X.indptr = X.indices.astype(types[0]), X.indptr.astype(types[1])
    np.testing.assert_array_equal(sparse_source(X).X.toarray(), plain.toarray())
    np.testing.assert_array_equal(vrpca.svd(X, 2).Vt, vrpca.svd(plain, 2).Vt)
    assert X.indices.dtype == types[0] and X.indptr.dtype == types[1]


CRASHES = """
import numpy as np, scipy.sparse as sp, vrpca
model = vrpca.PCA(2, random_state=0).fit(np.random.default_rng(0).standard_normal((30, 8)))
for make in (sp.csr_array, sp.csc_array, sp.bsr_array):
    for index in (np.int32, np.int64):
        for call in (lambda X: vrpca.pca(X, 2), lambda X: vrpca.svd(X, 2), model.transform):
            X = make(np.eye(12, 8))
            X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
            X.indptr[-1] = 2**31 - 1
            try:
                call(X)
            except vrpca.DataError as error:
                print("refused" if "indptr ends at 2147483647" in str(error) else error)
X = sp.coo_array((np.ones(3), (np.arange(3), np.arange(3))), shape=(12, 8))
X.row[1] = 2**31 - 1
try:
    vrpca.svd(X, 2)
except vrpca.DataError:
    print("refused")
X = sp.dia_array((np.ones((300, 12)), np.arange(300)), shape=(12, 8))
X.offsets = X.offsets[:1]
try:
    vrpca.svd(X, 2)
except vrpca.DataError:
    print("refused")
"""


BUILT = find_spec(NATIVE) is not None
COMPILED = pytest.param("native", marks=pytest.mark.skipif(not BUILT, reason="vrpca was built without a compiler"))


@pytest.mark.parametrize("kernels", [COMPILED, "reference"])
def test_nothing_follows_them_out_of_memory(kernels):
    """In a process of its own: compiled code that did would end the process."""
    done = run_python(CRASHES, VRPCA_KERNELS=kernels)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["refused"] * 20
