"""Files of all formats under a memory limit: the same answers, the limit that is named works, and refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from format_cases import matrix
from sklearn.datasets import dump_svmlight_file

import vrpca
from vrpca.data.files.base import BLOCK_BYTES, FileSource
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError
from vrpca.memory import BLOCK_SIZES

MISSING = "its library is not installed: pip install 'vrpca[test]'"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VRPCA_CACHE", str(tmp_path / "cache"))


def csv(path, X):
    np.savetxt(
        path / "X.csv", X, delimiter=",", fmt="%.17g", header=",".join(f"c{j}" for j in range(X.shape[1])), comments=""
    )
    return path / "X.csv"


def parquet(path, X):
    pa, pq = (pytest.importorskip(name, reason=MISSING) for name in ("pyarrow", "pyarrow.parquet"))
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}), path / "X.parquet", row_group_size=700)
    return path / "X.parquet"


def arrow(path, X):
    pa = pytest.importorskip("pyarrow", reason=MISSING)
    table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    with pa.ipc.new_file(str(path / "X.arrow"), table.schema) as file:
        file.write_table(table, max_chunksize=500)
    return path / "X.arrow"


def hdf5(path, X, chunks=(100, 40)):
    h5py = pytest.importorskip("h5py", reason=MISSING)
    with h5py.File(path / "X.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=chunks, compression="gzip")
    return path / "X.h5"


def tall_chunks(path, X):
    return hdf5(path, X, (len(X), 2))


def zarr(path, X):
    zarr = pytest.importorskip("zarr", reason=MISSING)
    zarr.create_array(str(path / "X.zarr"), data=X, chunks=(300, 50))
    return path / "X.zarr"


def shards(path, X):
    (path / "X").mkdir()
    for number, part in enumerate(np.array_split(X, 5)):
        np.save(path / "X" / f"{number}.npy", part.astype(np.float32) if number == 2 else part)
    return path / "X"


def sparse(X):
    return sp.csr_array(np.where(np.abs(X) > 2, X, 0))


def mtx(path, X):
    scipy.io.mmwrite(path / "X.mtx", sparse(X), precision=17)
    return path / "X.mtx"


def svmlight(path, X):
    dump_svmlight_file(sparse(X), np.zeros(len(X)), str(path / "X.svmlight"))
    return path / "X.svmlight"


def sparse_shards(path, X):
    (path / "X").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 4)):
        sp.save_npz(path / "X" / f"{number}.npz", sparse(X)[rows], compressed=False)
    return path / "X"


WRITERS = (csv, parquet, arrow, hdf5, tall_chunks, zarr, shards, mtx, svmlight, sparse_shards)


@pytest.fixture(scope="module")
def X():
    return matrix(np.random.default_rng(3), 3000, 120)


def smallest(path, **options):
    with pytest.raises(OptionError, match="memory_limit=1 is too small") as refused:
        vrpca.pca(path, memory_limit=1, n_threads=1, **options)
    return int(re.search(r"Pass memory_limit=(\d+) or more", str(refused.value))[1])


@pytest.mark.parametrize("solver", ["auto", "accelerated", "krylov"])
@pytest.mark.parametrize("write", WRITERS)
def test_answers_do_not_depend_on_the_limit_and_the_one_that_is_named_works(tmp_path, X, write, solver):
    path, options = write(tmp_path, X), {"k": 3, "tol": 1e-8, "solver": solver, "compute_u": False}
    free = vrpca.pca(path, random_state=0, n_threads=1, **options)
    limit = smallest(path, **options)
    assert limit == vrpca.info(path, 3, solver=solver, tol=1e-8, n_threads=1).smallest_limit
    for cost in ("auto", "passes"):
        tight = vrpca.pca(path, memory_limit=max(limit, 10**8), random_state=0, n_threads=1, cost=cost, **options)
        np.testing.assert_allclose(tight.s, free.s, rtol=1e-7)
    np.testing.assert_allclose(
        vrpca.pca(path, memory_limit=limit, random_state=0, n_threads=1, **options).s, free.s, rtol=1e-7
    )
    with pytest.raises(OptionError, match=f"Pass memory_limit={limit} or more"):
        vrpca.pca(path, memory_limit=limit - 1, n_threads=1, **options)


@pytest.mark.parametrize("write", WRITERS)
def test_nothing_is_mapped_or_loaded_under_a_limit(tmp_path, X, write):
    source = as_source(write(tmp_path, X), True)
    assert isinstance(source, FileSource)
    assert source.block_memory(1 << 16) < source.block_memory(BLOCK_BYTES)
    assert source.within(BLOCK_SIZES[-1]).within(BLOCK_BYTES).block_bytes == BLOCK_SIZES[-1]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("write", [hdf5, tall_chunks, zarr, shards, parquet])
def test_the_buffers_of_both_sides_count(tmp_path, X, write, transpose):
    source = as_source(write(tmp_path, X), True).within(1 << 18)
    sides = [source, source.transposed()] if transpose else [source]
    for side in sides:
        for _ in side.blocks():
            pass
    assert sum(buffer.nbytes for side in sides for buffer in side.buffers.values()) <= sum(
        side.reading_memory() for side in sides
    )


def test_a_limit_is_refused_where_another_library_decides(tmp_path, X):
    pl = pytest.importorskip("polars", reason=MISSING)
    frame = pl.DataFrame(X[:, :5]).lazy()
    with pytest.raises(OptionError, match=r"memory_limit cannot be kept: polars decides .*sink_parquet"):
        vrpca.pca(frame, 2, memory_limit="1GB")
    found = vrpca.info(frame, 2)
    assert found.smallest_limit is None and "none can be kept" in str(found)


def test_a_limit_is_refused_for_datasets(tmp_path, X):
    dataset = pytest.importorskip("pyarrow.dataset", reason=MISSING)
    with pytest.raises(OptionError, match=r"pyarrow decides how much of a dataset it reads ahead\. Pass the paths"):
        vrpca.pca(dataset.dataset(parquet(tmp_path, X)), 2, memory_limit="1GB")


def test_several_files_that_have_to_be_loaded_are_refused_before_that(tmp_path, X, monkeypatch):
    for number in range(2):
        sp.save_npz(tmp_path / f"{number}.npz", sparse(X), compressed=True)
    files = sorted(tmp_path.glob("*.npz"))
    assert vrpca.pca(files, 2, tol=1e-3).converged
    monkeypatch.setattr("vrpca.data.files.npz.open_matrix", None)  # whoever loads one fails
    with pytest.raises(DataError, match=r"0\.npz has to be loaded whole, so memory_limit cannot be kept .*compressed"):
        vrpca.pca(files, 2, memory_limit="1GB")


CHILD = """
import json, sys, warnings
import vrpca
def memory(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
warnings.simplefilter("ignore")
path, options = json.loads(sys.argv[1])
vrpca.info(path, 2)  # libraries are imported
before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
vrpca.pca(path, random_state=0, **options)
print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_the_peak_stays_within_the_limit_where_files_were_mapped(tmp_path, kind):
    """The file is larger than the limit and what is allowed beside it: its pages would count if it were mapped."""
    pa, pq = (pytest.importorskip(name, reason=MISSING) for name in ("pyarrow", "pyarrow.parquet"))
    part = pa.table({f"c{j}": column for j, column in enumerate(np.random.default_rng(0).random((50, 20_000)))})
    path, limit = tmp_path / f"X.{kind}", 60 * 10**6
    made = pq.ParquetWriter(path, part.schema) if kind == "parquet" else pa.ipc.new_file(str(path), part.schema)
    with made as file:
        for _ in range(55):
            file.write_table(part)
    options = {"k": 2, "solver": "krylov", "memory_limit": limit, "max_passes": 3, "compute_u": False}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([str(path), options])], capture_output=True, text=True, check=True
    )
    assert path.stat().st_size > limit + 300 * 10**6 and int(done.stdout) < limit + 300 * 10**6
