"""Data behind an address: fsspec's file system in memory stands for all others."""

import sys

import numpy as np
import pytest
from format_cases import assert_same_answer, assert_same_rows, matrix

import vrpca
from vrpca.errors import DataError

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'vrpca[remote]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'vrpca[parquet]'")


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/vrpca", recursive=True) if system.exists("/vrpca") else None


@pytest.fixture
def X(rng):
    return matrix(rng)


def table(X):
    return pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})


def test_parquet(memory, X):
    import pyarrow.parquet as pq

    with memory.open("/vrpca/a.parquet", "wb") as file:
        pq.write_table(table(X), file, row_group_size=37)
    assert_same_rows("memory://vrpca/a.parquet", X)
    assert_same_answer("memory://vrpca/a.parquet", X)
    with pytest.raises(DataError, match="holds one matrix only"):
        vrpca.open_data("memory://vrpca/a.parquet::x")


def test_arrow(memory, X):
    with memory.open("/vrpca/a.arrow", "wb") as file, pa.ipc.new_file(file, table(X).schema) as writer:
        writer.write_table(table(X), max_chunksize=50)
    assert_same_rows("memory://vrpca/a.arrow", X)


def test_zarr(memory, X):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed: pip install 'vrpca[zarr]'")
    group = zarr.open_group("memory://vrpca/a.zarr", mode="w")
    group.create_array("inner/X", data=X, chunks=(13, 11))
    for address in ("memory://vrpca/a.zarr", "memory://vrpca/a.zarr::inner/X", "memory://vrpca/a.zarr/inner/X"):
        assert_same_rows(address, X)


def test_what_cannot_be(memory, X, monkeypatch):
    with memory.open("/vrpca/a.npy", "wb") as file:
        np.save(file, X)
    with pytest.raises(DataError, match=r"a\.npy cannot be read from where it is.*copy it"):
        vrpca.open_data("memory://vrpca/a.npy")
    with pytest.raises(DataError, match=r"There is no file memory://vrpca/none.parquet"):
        vrpca.open_data("memory://vrpca/none.parquet")
    with pytest.raises(DataError, match=r"nowhere://a.parquet cannot be opened"):
        vrpca.open_data("nowhere://a.parquet")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(DataError, match=r'cannot be read without fsspec: pip install "vrpca\[remote\]"'):
        vrpca.open_data("memory://vrpca/a.parquet")
