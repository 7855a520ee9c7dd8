"""What can be opened as a source, and what everything else is told."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import vrpca
from helpers import gather
from vrpca.check import check
from vrpca.data.open import as_source, is_path
from vrpca.errors import DataError, DataTypeError

pytestmark = pytest.mark.reference


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


def test_masked_entries_are_not_silently_used():
    """A mask says that an entry is missing: it must not be decomposed as the number below the mask."""
    X = np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3))
    try:
        found = gather(as_source(X))
    except DataError:
        return
    assert np.isnan(found[X.mask]).all()


def test_paths():
    assert is_path("X.npy") and is_path(Path("X.npy"))
    assert not is_path(b"X.npy") and not is_path(np.ones((3, 2)))


class Elsewhere:
    """An array on disk or on a cluster: it notices when it is loaded."""

    shape, dtype, loaded = (20, 3), np.dtype(float), False

    def __init__(self, **members):
        vars(self).update(members)

    def __array__(self, *_args, **_keywords):
        type(self).loaded = True
        return np.eye(20, 3)


@pytest.mark.parametrize(
    "members",
    [
        {"chunks": ((10, 10), (3,)), "__dask_graph__": dict},  # dask
        {"chunks": None},  # h5py, where the rows lie together
        {"chunks": (10, 3)},  # zarr, h5py
        {"chunkshape": (10, 3)},  # PyTables
        {"chunking": lambda: "contiguous"},  # netCDF4
        {"chunks": ((10, 10), (3,)), "__dask_graph__": dict, "values": None},  # xarray, of a dask array
    ],
)
def test_arrays_that_lie_elsewhere_are_not_loaded(members):
    model = vrpca.PCA(2, random_state=0).fit(np.random.default_rng(0).standard_normal((30, 3)))
    calls = (as_source, lambda X: vrpca.svd(X, 2), vrpca.PCA(2).fit, model.transform, lambda X: check(model, X))
    for call in calls:
        with pytest.raises(DataTypeError, match=r"X is a test_open Elsewhere.*numpy\.asarray\(X\).*vrpca\.Source"):
            call(Elsewhere(**members))
    assert not Elsewhere.loaded


def test_labelled_arrays_in_memory_are_fine():
    """As those of xarray, which have chunks where dask is behind them, and None otherwise."""
    X = Elsewhere(chunks=None, values=np.eye(20, 3), __dask_graph__=lambda: None)
    np.testing.assert_array_equal(gather(as_source(X)), np.eye(20, 3))
