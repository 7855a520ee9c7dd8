"""Data in memory: the blocks are X's rows, in the promised type, without changing or copying X."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import check_blocks

from helpers import gather, sparse_matrix
from vrpca.data.first_pass import column_moments
from vrpca.data.memory import BLOCK_BYTES
from vrpca.data.open import as_source

pytestmark = pytest.mark.reference

SPARSE = [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array]


def arrays():
    """Named arrays of every layout and number type, all with small whole numbers, which every type can hold."""
    rng = np.random.default_rng(1)
    base = rng.integers(0, 5, (23, 6))
    wide = np.zeros((46, 18))
    wide[::2, ::3] = base
    shifted = np.frombuffer(b"\0" + base.astype(np.float64).tobytes(), np.uint8)[1:].view(np.float64).reshape(23, 6)
    read_only = base.astype(float)
    read_only.flags.writeable = False
    kinds = {
        "C": base.astype(float),
        "F": np.asfortranarray(base.astype(float)),
        "strided": wide[::2, ::3],
        "reversed": base.astype(float)[::-1, ::-1],
        "read-only": read_only,
        "unaligned": shifted,
        "broadcast": np.broadcast_to(base[:1].astype(float), (23, 6)),
        "byte-swapped f8": base.astype(np.dtype("f8").newbyteorder("S")),
        "byte-swapped f4": base.astype(np.dtype("f4").newbyteorder("S")),
        "byte-swapped i4": base.astype(np.dtype("i4").newbyteorder("S")),
        "list": base.tolist(),
        "subclass": base.astype(float).view(np.recarray),
    }
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"):
        kinds[dtype] = base.astype(dtype)
    return kinds


ARRAYS = arrays()


def fingerprint(X):
    """The bytes of everything that X holds."""
    if sp.issparse(X):
        if X.format == "coo":
            return (X.data.tobytes(), *(c.tobytes() for c in X.coords))
        return tuple(getattr(X, name).tobytes() for name in ("data", "indices", "indptr"))
    return X.tobytes() if isinstance(X, np.ndarray) else repr(X)


def check(X, expected):
    before = fingerprint(X)
    source = as_source(X)
    check_blocks(source, expected)
    check_blocks(source.transposed(), np.asarray(expected).T)
    check_blocks(source.transposed().transposed(), expected)
    assert fingerprint(X) == before
    return source


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_layout_and_type(name):
    X = ARRAYS[name]
    check(X, np.asarray(X).astype(float))


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("rows", [1, 5])
def test_arrays_in_small_pieces(name, rows, monkeypatch):
    X = ARRAYS[name]
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 6 * 8 * rows)
    check(X, np.asarray(X).astype(float))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_the_extremes_of_small_integers_survive(dtype):
    info = np.iinfo(dtype)
    X = np.array([[info.min, info.max], [0, info.max - 1]], dtype)
    np.testing.assert_array_equal(gather(as_source(X)), X.astype(float))


def test_objects_that_are_numbers_are_numbers():
    check(np.array([[1, 2.5], [3, 4]], object), [[1, 2.5], [3, 4]])


# -------------------------------------------------------------------------------------------------------- memory maps


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_maps_stay_as_they_are_on_disk(mode, dtype, order, tmp_path, rng):
    path = tmp_path / "X.npy"
    np.save(path, np.asarray(rng.integers(0, 9, (40, 5)), dtype, order=order))
    on_disk = path.read_bytes()
    X = np.load(path, mmap_mode=mode)
    source = check(X, np.asarray(X).astype(float))
    if order == "C" and dtype in ("f4", "f8"):
        (block,) = (X for _, X in source.blocks())
        assert np.shares_memory(block, X)
    if mode == "r+":
        X.flush()
    del X, source
    assert path.read_bytes() == on_disk


# ------------------------------------------------------------------------------------------------------------- sparse


@pytest.mark.parametrize("make", SPARSE)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u2", "?"])
@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
def test_sparse_matrices_of_every_class_and_type(make, dtype, density, rng):
    X = (sparse_matrix(33, 7, density, rng) > 0).astype(dtype)
    check(make(X), X)


@pytest.mark.parametrize("fmt", ["coo", "lil", "dok", "bsr", "dia"])
def test_other_sparse_formats(fmt, rng):
    X = sparse_matrix(12, 5, 0.4, rng)
    matrix = sp.csr_array(X).asformat(fmt)
    check_blocks(as_source(matrix), X)
    check_blocks(as_source(matrix).transposed(), X.T)
    np.testing.assert_array_equal(matrix.toarray(), X)


@pytest.mark.parametrize("make", [sp.coo_array, sp.coo_matrix])
def test_coo_entries_given_twice_are_added(make):
    X = make((np.array([1.0, 2.0, 4.0]), (np.array([1, 1, 0]), np.array([2, 2, 0]))), shape=(3, 4))
    check(X, X.toarray())


def compressed(make, X, index, rng, shuffle, duplicate, zeros):
    """A CSR or CSC matrix with its indices out of order, entries split in two, zeros stored; not canonical."""
    rows = X if "csr" in make.__name__ else X.T
    data, indices, indptr = [], [], [0]
    for row in rows:
        j = np.flatnonzero(row)
        v = row[j]
        if duplicate:
            j, v = np.r_[j, j], np.r_[v / 4, v * 3 / 4]
        if zeros:
            j, v = np.r_[j, rng.integers(len(row))], np.r_[v, 0.0]
        if shuffle:
            turn = rng.permutation(len(j))
            j, v = j[turn], v[turn]
        data.append(v)
        indices.append(j)
        indptr.append(indptr[-1] + len(j))
    matrix = make(X.shape, dtype=X.dtype)
    matrix.data, matrix.indices = np.concatenate(data).astype(X.dtype), np.concatenate(indices).astype(index)
    matrix.indptr = np.array(indptr, index)
    return matrix


@pytest.mark.parametrize("make", SPARSE)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("duplicate", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_sparse_matrices_that_are_not_canonical(make, index, shuffle, duplicate, zeros, rng):
    X = np.round(8 * sparse_matrix(15, 6, 0.4, rng))
    matrix = compressed(make, X, index, rng, shuffle, duplicate, zeros)
    assert matrix.indices.dtype == index
    check(matrix, X)
    assert matrix.indices.dtype == index


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_canonical_csr_floats_are_handed_out_as_they_are(index, rng):
    X = sparse_matrix(15, 6, 0.4, rng)
    matrix = compressed(sp.csr_matrix, X, index, rng, False, False, False)
    ((_, block),) = as_source(matrix).blocks()
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(block, name), getattr(matrix, name))


def test_csr_arrays_with_gaps_in_memory(rng):
    """scipy keeps the arrays it is given, strided ones, too; the kernels need them gapless."""
    X = sparse_matrix(9, 4, 0.5, rng)
    matrix = sp.csr_array(X)
    for name in ("data", "indices", "indptr"):
        part = getattr(matrix, name)
        spread = np.zeros(2 * len(part), part.dtype)
        spread[::2] = part
        setattr(matrix, name, spread[::2])
    np.testing.assert_allclose(column_moments(as_source(matrix), None, 1).mean, X.mean(0), atol=1e-15)


# --------------------------------------------------------------------------------------------------------------- memory


def peak_of_a_walk(source):
    tracemalloc.start()
    for _, block in source.blocks():
        assert block.shape[1] == source.shape[1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_in_c_order_are_not_copied(dtype):
    X = np.zeros((40_000_000 // (250 * np.dtype(dtype).itemsize), 250), dtype)
    assert peak_of_a_walk(as_source(X)) < 2e6


@pytest.mark.parametrize("dtype", ["i1", "u1", "?", "f2", "i2", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_must_be_converted_is_converted_a_block_at_a_time(dtype, order):
    X = np.zeros((40_000_000 // (250 * np.dtype(dtype).itemsize), 250), dtype, order=order)
    assert peak_of_a_walk(as_source(X)) < 3 * BLOCK_BYTES


def test_a_transposed_array_is_read_a_block_at_a_time():
    assert peak_of_a_walk(as_source(np.zeros((10_000, 1000), np.float32)).transposed()) < 3 * BLOCK_BYTES


def test_sparse_integers_are_converted_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", BLOCK_BYTES // 8)
    n, per_row = 200_000, 25
    indices = np.tile(np.arange(per_row, dtype=np.int32), n)
    X = sp.csr_array(
        (np.ones(n * per_row, np.int8), indices, np.arange(0, n * per_row + 1, per_row, dtype=np.int32)), (n, 30)
    )
    assert peak_of_a_walk(as_source(X)) < BLOCK_BYTES  # two blocks' values, indices and row pointers
    whole = sp.csr_array((np.ones(n * per_row, np.float32), X.indices, X.indptr), (n, 30))
    assert peak_of_a_walk(as_source(whole)) < 2e6


def test_a_memory_map_of_integers_is_read_a_block_at_a_time(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((160_000, 250), np.uint8))
    assert peak_of_a_walk(as_source(np.load(tmp_path / "X.npy", mmap_mode="r"))) < 3 * BLOCK_BYTES
