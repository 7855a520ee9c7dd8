"""Data frames: their blocks are the frame's rows, missing values are NaN, and unusable columns are named."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from data_cases import check_blocks

from helpers import gather
from vrpca.data.open import as_source
from vrpca.errors import DataError

pytestmark = pytest.mark.reference


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
    monkeypatch.setattr("vrpca.data.memory.BLOCK_BYTES", 8 * 4 * rows)
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
