"""Parquet, Arrow and lazy frames: the same answer as the array in memory, and one clear error for what cannot be."""

import pickle

import numpy as np
import polars as pl
import pytest
from format_cases import assert_same_answer, assert_same_rows, matrix, read

import vrpca
from vrpca.data.open import as_source
from vrpca.errors import DataError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'vrpca[parquet]'")
pq = pytest.importorskip("pyarrow.parquet")
dataset = pytest.importorskip("pyarrow.dataset")
feather = pytest.importorskip("pyarrow.feather")

DTYPES = [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint16, bool]


def table(X, **before):
    return pa.table({**before, **{f"c{j}": np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])}})


def parquet(path, t):
    pq.write_table(t, path, row_group_size=37)
    return path


def arrow(path, t):
    feather.write_feather(t, path, chunksize=41, compression="uncompressed")
    return path


def packed_arrow(path, t):
    feather.write_feather(t, path, chunksize=41, compression="zstd")
    return path


def in_memory(path, t):
    return pa.concat_tables([t.slice(0, 50), t.slice(50)])


def files(path, t):
    for number in range(3):
        pq.write_table(t.slice(number * 40, 40), f"{path}.{number}.parquet")
    return dataset.dataset([f"{path}.{number}.parquet" for number in range(3)])


def lazy(path, t):
    pq.write_table(t, path, row_group_size=37)
    return pl.scan_parquet(path)


WRITERS = [parquet, arrow, packed_arrow, in_memory, files, lazy]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_those_of_the_table(tmp_path, rng, write, dtype):
    X = matrix(rng, dtype=dtype)
    source = as_source(write(tmp_path / "data", table(X)))
    working = np.float32 if np.dtype(dtype).itemsize <= 2 or dtype is np.float32 else np.float64
    assert source.dtype == working
    for block_bytes in (1 << 20, 30 * 8 * 10, 1):
        assert_same_rows(source.within(block_bytes), X.astype(working))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_answer_is_that_of_the_array(tmp_path, rng, write, dtype):
    X = matrix(rng, dtype=dtype)
    source = as_source(write(tmp_path / "data", table(X))).within(30 * 8 * 16)
    for options in ({}, {"scale": True}, {"solver": "accelerated"}, {"sample_weight": rng.random(len(X))}):
        assert_same_answer(source, X, **options)


@pytest.mark.parametrize("write", [parquet, arrow, lazy])
@pytest.mark.parametrize("shape", [(1, 5), (7, 300), (120, 1)])
def test_odd_shapes(tmp_path, rng, write, shape):
    X = rng.standard_normal(shape)
    source = as_source(write(tmp_path / "data", table(X)))
    assert_same_rows(source.within(1000), X)


def test_columns_of_several_types_become_the_widest(tmp_path, rng):
    columns = {"a": np.arange(9, dtype=np.int8), "b": rng.standard_normal(9).astype(np.float32), "c": np.arange(9) > 4}
    assert as_source(parquet(tmp_path / "a", pa.table(columns))).dtype == np.float32
    columns["d"] = np.arange(9)
    found = read(parquet(tmp_path / "b", pa.table(columns)))
    np.testing.assert_array_equal(found, np.column_stack([*columns.values()]).astype(np.float64))


def test_decimals_are_numbers(tmp_path):
    column = pa.array([1.25, 2.5, -3.75]).cast(pa.decimal128(10, 2))
    np.testing.assert_array_equal(read(parquet(tmp_path / "a", pa.table({"x": column}))), [[1.25], [2.5], [-3.75]])


@pytest.mark.parametrize("write", [parquet, arrow, in_memory])
def test_one_column_of_lists_is_a_matrix(tmp_path, rng, write):
    X = matrix(rng, dtype=np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    for before in ({}, {"id": [f"r{i}" for i in range(len(X))]}):
        source = as_source(write(tmp_path / "data", pa.table({**before, "embedding": lists}))).within(30 * 4 * 16)
        assert_same_rows(source, X)
        assert (source.row_names is None) == (not before) and source.column_names is None


def test_a_leading_column_of_text_names_the_rows(tmp_path, rng):
    X, names = matrix(rng), [f"sample {i}" for i in range(120)]
    for write in (parquet, arrow, in_memory, files):
        source = as_source(write(tmp_path / "data", table(X, name=names)))
        np.testing.assert_array_equal(read(source), X)
        assert list(source.row_names) == names and len(source.row_names) == 120
        assert list(source.column_names) == [f"c{j}" for j in range(30)]
        assert source.transposed().column_names[3] == "sample 3"


def test_the_index_of_pandas_is_no_feature(tmp_path, rng):
    X = matrix(rng)
    frame = table(X).to_pandas()
    frame.to_parquet(tmp_path / "range.parquet")  # a range is not stored as a column
    assert as_source(tmp_path / "range.parquet").row_names is None
    frame.index = np.arange(120) * 3
    frame.to_parquet(tmp_path / "numbers.parquet")
    source = as_source(tmp_path / "numbers.parquet")
    np.testing.assert_array_equal(read(source), X)
    assert source.row_names[:3] == ["0", "3", "6"]


def test_row_groups_without_rows(tmp_path, rng):
    X = matrix(rng)
    t = table(X)
    with pq.ParquetWriter(tmp_path / "a.parquet", t.schema) as writer:
        for part in (t.slice(0, 0), t.slice(0, 50), t.slice(0, 0), t.slice(50), t.slice(0, 0)):
            writer.write_table(part)
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, t.schema) as writer:
        for part in (t.slice(0, 0), t.slice(0, 50), t.slice(0, 0), t.slice(50)):
            writer.write_batch(part.to_batches()[0] if len(part) else pa.RecordBatch.from_pylist([], schema=t.schema))
    for name in ("a.parquet", "a.arrow"):
        assert_same_rows(as_source(tmp_path / name).within(30 * 8 * 7), X)


def test_columns_whose_names_have_dots(tmp_path, rng):
    X = matrix(rng, d=3)
    t = pa.table({"a": X[:, 0], "a.b": X[:, 1], "b": X[:, 2]})
    assert_same_rows(parquet(tmp_path / "data", t), X)


@pytest.mark.parametrize("write", [parquet, arrow, in_memory, files])
def test_sources_can_be_pickled(tmp_path, rng, write):
    X = matrix(rng)
    source = as_source(write(tmp_path / "data", table(X)))
    read(source)
    assert_same_rows(pickle.loads(pickle.dumps(source)), X)


def test_several_files_are_one_matrix(tmp_path, rng):
    """A folder as Spark writes it: a mark beside the parts, and parts without rows."""
    X, folder = matrix(rng), tmp_path / "data.parquet"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for number, part in enumerate((X[:50], X[:0], X[50:])):
        pq.write_table(table(part), folder / f"part-{number}.parquet", row_group_size=37)
    assert_same_rows(as_source(folder).within(30 * 8 * 11), X)
    assert_same_answer(as_source(folder).within(30 * 8 * 11), X)


@pytest.mark.parametrize("write", [parquet, arrow, in_memory])
def test_two_passes_at_once(tmp_path, rng, write):
    X = matrix(rng)
    source = as_source(write(tmp_path / "data", table(X))).within(30 * 8 * 11)
    for (start, one), (_, other) in zip(source.blocks(), source.blocks(), strict=True):
        np.testing.assert_array_equal(one, X[start : start + len(one)])
        np.testing.assert_array_equal(other, one)


def test_a_model_is_fitted_from_a_path_or_an_object(tmp_path, rng):
    X = matrix(rng)
    wanted = vrpca.PCA(2, random_state=0).fit(X)
    path = parquet(tmp_path / "data.parquet", table(X))
    for data in (path, str(path), table(X), pl.scan_parquet(path), dataset.dataset(path)):
        model = vrpca.PCA(2, random_state=0).fit(data)
        np.testing.assert_allclose(model.singular_values_, wanted.singular_values_, rtol=1e-10)
        np.testing.assert_allclose(np.abs(model.transform(data)), np.abs(wanted.transform(X)), atol=1e-8)


def test_slices_stand_in_where_polars_has_no_batches(tmp_path, rng, monkeypatch):
    X = matrix(rng)
    query = lazy(tmp_path / "data", table(X))
    monkeypatch.delattr(pl.LazyFrame, "collect_batches", raising=False)
    assert_same_rows(as_source(query).within(30 * 8 * 7), X)


# -------------------------------------------------------------------------------------------------------- what is wrong


def with_null(X, row):
    columns = {f"c{j}": pa.array(X[:, j]) for j in range(3)}
    columns["c1"] = pa.array([None if i == row else 1.0 for i in range(len(X))])
    return pa.table(columns)


@pytest.mark.parametrize("write", WRITERS)
def test_a_missing_value_has_its_place(tmp_path, rng, write):
    source = as_source(write(tmp_path / "data", with_null(matrix(rng), 83))).within(3 * 8 * 10)
    with pytest.raises(DataError, match=r"column 'c1' has no value in row 83\. Impute or drop"):
        vrpca.pca(source, 1)


@pytest.mark.parametrize("write", WRITERS)
def test_nan_in_a_late_block_has_its_place(tmp_path, rng, write):
    X = matrix(rng)
    X[77, 4] = np.nan
    source = as_source(write(tmp_path / "data", table(X))).within(30 * 8 * 10)
    with pytest.raises(DataError, match=r"NaN \(row 77, column 'c4'\)"):
        vrpca.pca(source, 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, 2.0], "city": ["a", "b"]}, "column 'city' is of type string"),
        ({"a": ["a", "b"], "b": ["a", "b"], "x": [1.0, 2.0]}, "column 'b' is of type string"),
        ({"x": pa.array([0, 1], pa.timestamp("s"))}, "column 'x' is of type timestamp"),
        ({"x": pa.array([[1.0], [2.0, 3.0]])}, "column 'x' is of type list"),
        ({"x": pa.array([None, None])}, "column 'x' is of type null"),
        ({"x": pa.array([], pa.float64())}, "0 sample"),
        ({}, "no columns of numbers"),
    ],
    ids=["text", "two texts", "time", "ragged", "null", "no rows", "no columns"],
)
@pytest.mark.parametrize("write", [parquet, arrow])
def test_columns_that_are_no_numbers(tmp_path, write, columns, message):
    path = write(tmp_path / "data", pa.table(columns))
    with pytest.raises(DataError, match=message):
        vrpca.pca(path, 1)


def test_dictionaries_of_numbers(tmp_path):
    """Parquet stores their values; Arrow keeps them apart."""
    t = pa.table({"x": pa.array([7, 9, 7]).dictionary_encode()})
    np.testing.assert_array_equal(read(parquet(tmp_path / "data", t)), [[7], [9], [7]])
    with pytest.raises(DataError, match=r"column 'x' is dictionary-encoded .* dictionary_decode"):
        as_source(arrow(tmp_path / "data", t))


def test_two_columns_of_one_name():
    t = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 2, names=["x", "x"])
    with pytest.raises(DataError, match="two columns of the same name"):
        as_source(t)


@pytest.mark.parametrize("write", [parquet, packed_arrow])
def test_truncated_files(tmp_path, rng, write):
    path = write(tmp_path / "data", table(matrix(rng)))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"data is truncated or damaged: .*Write or copy it again\.$"):
        vrpca.open_data(path)


def test_damage_within_a_file_has_its_place(tmp_path, rng):
    path = tmp_path / "data.parquet"
    pq.write_table(table(matrix(rng, 4000)), path, row_group_size=1000, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = b"\xff" * 3000
    path.write_bytes(bytes(content))
    source = as_source(path).within(30 * 8 * 500)
    with pytest.raises(DataError, match=r"data.parquet cannot be read from row \d+ on: .*Write or copy it again"):
        vrpca.pca(source, 1)


def test_a_missing_library_is_named(tmp_path, rng, monkeypatch):
    import sys

    path = parquet(tmp_path / "data", table(matrix(rng)))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r'cannot be read without pyarrow: pip install "vrpca\[parquet\]"'):
        vrpca.open_data(path)


def test_lazy_frames_with_text_are_refused():
    with pytest.raises(DataError, match="'city' is of type String"):
        as_source(pl.LazyFrame({"x": [1.0], "city": ["a"]}))
    with pytest.raises(DataError, match="no columns"):
        as_source(pl.LazyFrame())
