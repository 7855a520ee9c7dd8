"""Sources: whatever X is, its blocks are X's rows, in the promised type, without changing or copying it."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from helpers import densify, gather, sparse_matrix
from vrpca.data import as_source
from vrpca.data.arrays import BLOCK_BYTES, walk
from vrpca.data.source import Source
from vrpca.errors import DataError

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


def check_blocks(source, expected):
    """Blocks have the promised form, hold X, and cover every row exactly once, in order or at random."""
    expected = np.asarray(expected, float)
    assert isinstance(source, Source)
    assert source.shape == expected.shape
    assert source.dtype in (np.float32, np.float64)
    for rng in (None, np.random.default_rng(0)):
        count = np.zeros(expected.shape[0], int)
        starts = []
        for start, X in source.blocks(rng):
            assert X.dtype == source.dtype and X.dtype.isnative
            assert X.format == "csr" if sp.issparse(X) else X.flags.c_contiguous
            np.testing.assert_array_equal(densify(X), expected[start : start + X.shape[0]])
            count[start : start + X.shape[0]] += 1
            starts.append(start)
        assert (count == 1).all()
        if rng is None:
            assert starts == sorted(starts)


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
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", 6 * 8 * rows)
    check(X, np.asarray(X).astype(float))


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        *((t, np.float32) for t in ("f2", "f4", "i1", "i2", "u1", "u2", "?", ">f4", ">i2")),
        *((t, np.float64) for t in ("f8", "i4", "i8", "u4", "u8", ">f8", ">i8")),
    ],
)
def test_types_that_float32_holds_exactly_become_float32_the_others_float64(given_, expected):
    X = np.ones((3, 2), given_)
    assert as_source(X).dtype == expected
    assert as_source(pd.DataFrame({"a": X[:, 0].astype(X.dtype.newbyteorder("="))})).dtype == expected
    if X.dtype.isnative and given_ != "f2":
        assert as_source(sp.csr_array(X)).dtype == expected
        assert as_source(sp.csc_array(X)).dtype == expected


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_the_extremes_of_small_integers_survive(dtype):
    info = np.iinfo(dtype)
    X = np.array([[info.min, info.max], [0, info.max - 1]], dtype)
    np.testing.assert_array_equal(gather(as_source(X)), X.astype(float))


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.ones((3, 2), complex), "[Cc]omplex"),
        (np.ones((3, 2), np.complex64), "[Cc]omplex"),
        (sp.csr_array(np.ones((3, 2), complex)), "[Cc]omplex"),
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[b"a", b"b"]]), "S1"),
        ([["a", 1.0]], "only numbers|not numbers"),
        (np.array([["a", 1.0]], object), "not numbers"),
        (np.array([[None, {}]], object), "not numbers"),
        (np.zeros((2, 2), "M8[s]"), "datetime64"),
        (np.zeros((2, 2), "m8[s]"), "timedelta64"),
        (np.zeros((2, 2), np.longdouble), "float64"),
        (np.zeros(2, [("a", float)]), "2D|only numbers"),
        ([[1.0, 2.0], [3.0]], "equal length"),
        (np.zeros(5), "2D"),
        (np.zeros((2, 2, 2)), "2D"),
        (3.0, "2D"),
        (np.zeros((0, 4)), "0 sample"),
        (np.zeros((4, 0)), "0 feature"),
        (sp.csr_array((0, 4)), "0 sample"),
        (sp.csc_array((4, 0)), "0 feature"),
        (pd.DataFrame({"a": []}), "0 sample"),
        (pd.DataFrame(index=[1, 2]), "0 feature"),
    ],
)
def test_what_is_not_a_matrix_of_numbers_is_refused_with_the_reason(X, says):
    with pytest.raises(DataError, match=says):
        as_source(X)


def test_objects_that_are_numbers_are_numbers():
    check(np.array([[1, 2.5], [3, 4]], object), [[1, 2.5], [3, 4]])


def test_masked_entries_are_not_silently_used():
    """A mask says that an entry is missing: it must not be decomposed as the number below the mask."""
    X = np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3))
    try:
        found = gather(as_source(X))
    except DataError:
        return
    assert np.isnan(found[X.mask]).all()


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
    from vrpca.data.moments import column_moments

    X = sparse_matrix(9, 4, 0.5, rng)
    matrix = sp.csr_array(X)
    for name in ("data", "indices", "indptr"):
        part = getattr(matrix, name)
        spread = np.zeros(2 * len(part), part.dtype)
        spread[::2] = part
        setattr(matrix, name, spread[::2])
    np.testing.assert_allclose(column_moments(as_source(matrix), None, 1).mean, X.mean(0), atol=1e-15)


# ------------------------------------------------------------------------------------------------------------- frames


def test_pandas_frames_with_columns_of_many_types():
    frame = pd.DataFrame(
        {
            "i8": np.array([1, -2, 3], "i1"),
            "f4": np.array([0.5, 1.5, -2.5], "f4"),
            "b": [True, False, True],
            "i64": [1, 2, 3],
            "Int": pd.array([4, 5, 6], dtype="Int64"),
            "Float": pd.array([4.5, 5, 6], dtype="Float32"),
            "Bool": pd.array([True, True, False], dtype="boolean"),
            "sparse": pd.arrays.SparseArray([0.0, 0, 2.0]),
        },
        index=["x", "y", "z"],
    )
    before = frame.copy(deep=True)
    expected = np.column_stack([frame[name].astype(float) for name in frame])
    source = as_source(frame)
    check_blocks(source, expected)
    check_blocks(source.transposed(), expected.T)
    check_blocks(source.transposed().transposed(), expected)
    pd.testing.assert_frame_equal(frame, before)


def test_small_frame_columns_stay_float32():
    small = pd.DataFrame({"a": np.array([1, 2], "i1"), "b": np.array([1, 2], "f4")})
    assert as_source(small).dtype == np.float32
    assert as_source(small.assign(c=[1, 2])).dtype == np.float64
    assert as_source(pl.from_pandas(small)).dtype == np.float32


@pytest.mark.parametrize("rows", [1, 3])
def test_frames_in_small_pieces(rows, monkeypatch, rng):
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", 8 * 4 * rows)
    X = rng.standard_normal((10, 4))
    for frame in (pd.DataFrame(X, columns=list("abcd")), pl.DataFrame(X, schema=list("abcd"))):
        source = as_source(frame)
        assert len(list(source.blocks())) == -(-10 // rows)
        check_blocks(source, X)
        check_blocks(source.transposed(), X.T)
        check_blocks(source.transposed().transposed(), X)


def test_polars_frames_with_columns_of_many_types():
    frame = pl.DataFrame(
        {"a": [1, 2, 3], "b": [True, False, True], "c": [0.5, 1.5, 2.5], "d": [1, 2, 3]},
        schema={"a": pl.Int8, "b": pl.Boolean, "c": pl.Float32, "d": pl.UInt64},
    )
    expected = [[1, 1, 0.5, 1], [2, 0, 1.5, 2], [3, 1, 2.5, 3]]
    source = as_source(frame)
    check_blocks(source, expected)
    check_blocks(source.transposed(), np.array(expected).T)


@pytest.mark.parametrize(
    "column",
    [
        ["x", "y"],
        pd.to_datetime(["2024-01-01", "2024-01-02"]),
        pd.Categorical(["u", "v"]),
        [1j, 2],
        np.array([1, "z"], object),
        pd.to_timedelta([1, 2], unit="s"),
    ],
)
def test_a_pandas_column_that_is_not_numbers_is_named(column):
    with pytest.raises(DataError, match="colour"):
        as_source(pd.DataFrame({"size": [1.0, 2.0], "colour": column}))


@pytest.mark.parametrize("values", [["x", "y"], [None, None], [[1], [2]]])
def test_a_polars_column_that_is_not_numbers_is_named(values):
    with pytest.raises(DataError, match="colour"):
        as_source(pl.DataFrame({"size": [1.0, 2.0], "colour": values}))


@pytest.mark.parametrize("dtype", [pl.Decimal(10, 2), pl.Int128])
def test_a_polars_column_of_wide_numbers_is_named(dtype):
    frame = pl.DataFrame({"size": [1.0, 2.0], "money": [1, 2]}, schema_overrides={"money": dtype})
    with pytest.raises(DataError, match="money"):
        as_source(frame)


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda v: pd.DataFrame({"a": [1.0, 2, 3], "b": pd.array(v, dtype="Int64")}),
        lambda v: pd.DataFrame({"a": [1.0, 2, 3], "b": pd.array(v, dtype="Float32")}),
        lambda v: pd.DataFrame({"b": pd.array(v, dtype="Int8")}),
        lambda v: pl.DataFrame({"a": [1.0, 2, 3], "b": v}),
        lambda v: pl.DataFrame({"b": v}, schema={"b": pl.Int8}),
    ],
)
def test_missing_values_of_a_frame_arrive_as_nan(make, place):
    values = [4, 5, 6]
    values[place] = None
    found = gather(as_source(make(values)))
    assert np.isnan(found[place, -1]) and np.isfinite(np.delete(found[:, -1], place)).all()


def test_a_frame_with_two_columns_of_one_name():
    X = np.arange(6.0).reshape(3, 2)
    check_blocks(as_source(pd.DataFrame(X, columns=["a", "a"])), X)


def test_column_names_need_not_be_strings():
    X = np.arange(6.0).reshape(3, 2)
    check_blocks(as_source(pd.DataFrame(X)), X)
    check_blocks(as_source(pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))), X)


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
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", BLOCK_BYTES // 8)
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


# ---------------------------------------------------------------------------------------------------------------- walks


@given(st.integers(1, 200), st.integers(1, 250), st.integers(0, 2**32 - 1))
def test_walks_cover_every_row_once(n, rows, seed):
    for rng in (None, np.random.default_rng(seed)):
        seen = np.concatenate([np.arange(n)[piece] for piece in walk(n, rows, rng)])
        assert sorted(seen) == list(range(n))
        assert rng is not None or (np.diff(seen) == 1).all()


def test_random_walks_repeat_with_their_seed_and_differ_without(monkeypatch):
    monkeypatch.setattr("vrpca.data.arrays.BLOCK_BYTES", 64)
    source = as_source(np.arange(400, dtype=np.int64).reshape(100, 4))
    starts = [[s for s, _ in source.blocks(np.random.default_rng(seed))] for seed in (1, 1, 2)]
    assert starts[0] == starts[1] != starts[2]
    assert starts[0] != sorted(starts[0])


def test_a_source_is_its_own_source():
    source = as_source(np.ones((3, 2)))
    assert as_source(source) is source
