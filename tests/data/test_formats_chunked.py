"""HDF5, zarr and .h5ad: the same answer as the array in memory, and one clear error for what cannot be."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from format_cases import assert_same_answer, assert_same_rows, matrix

import vrpca
from vrpca.check import check
from vrpca.data.open import as_source
from vrpca.errors import DataError, DataTypeError

h5py = pytest.importorskip("h5py", reason="h5py is not installed: pip install 'vrpca[hdf5]'")
zarr = pytest.importorskip("zarr", reason="zarr is not installed: pip install 'vrpca[zarr]'")

CHUNKS = [None, (7, 30), (50, 4), (120, 30), (13, 11)]


def hdf5(path, X, chunks=(13, 11), **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("group/X", data=X, chunks=chunks, **options)
        file["labels"] = np.zeros(len(X))
    return path


def packed_hdf5(path, X, chunks=(13, 11)):
    return hdf5(path, X, chunks or (13, 11), compression="gzip")


def zarr2(path, X, chunks=(13, 11)):
    zarr.create_array(str(path), data=np.ascontiguousarray(X), chunks=chunks or (13, 11), zarr_format=2)
    return path


def zarr3(path, X, chunks=(13, 11)):
    zarr.create_array(str(path), data=np.ascontiguousarray(X), chunks=chunks or (13, 11), zarr_format=3)
    return path


WRITERS = [hdf5, packed_hdf5, zarr2, zarr3]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("chunks", CHUNKS)
def test_rows_are_those_of_the_array(tmp_path, rng, write, chunks):
    X = matrix(rng)
    source = as_source(write(tmp_path / "data", X, chunks))
    for block_bytes in (1 << 20, 30 * 8 * 20):
        assert_same_rows(source.within(block_bytes), X)


@pytest.mark.parametrize("write", [hdf5, zarr2, zarr3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ">f4", np.int64, np.uint8, bool])
def test_number_types(tmp_path, rng, write, dtype):
    X = matrix(rng, dtype=bool if dtype is bool else np.dtype(dtype))
    source = as_source(write(tmp_path / "data", X))
    working = np.float32 if X.dtype.itemsize <= 2 or X.dtype in ("<f4", ">f4") else np.float64
    assert source.dtype == working
    assert_same_rows(source.within(30 * 8 * 20), X.astype(working))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_answer_is_that_of_the_array(tmp_path, rng, write, dtype):
    X = matrix(rng, dtype=dtype)
    source = as_source(write(tmp_path / "data", X)).within(30 * 8 * 26)
    for options in ({}, {"scale": True}, {"solver": "accelerated"}, {"sample_weight": rng.random(len(X))}):
        assert_same_answer(source, X, **options)


@pytest.mark.parametrize("write", [hdf5, zarr3])
@pytest.mark.parametrize("shape", [(1, 5), (7, 300), (120, 1)])
def test_odd_shapes(tmp_path, rng, write, shape):
    X = rng.standard_normal(shape)
    assert_same_rows(as_source(write(tmp_path / "data", X, (min(shape[0], 3), min(shape[1], 8)))).within(1000), X)


def test_tall_chunks_are_walked_by_columns(tmp_path, rng):
    X = matrix(rng, 2000, 300)
    source = as_source(hdf5(tmp_path / "a", X, (2000, 2))).within(1 << 17)
    assert source.by_columns and not source.by_rows
    assert_same_answer(source, X)
    rows = as_source(hdf5(tmp_path / "b", X, (2, 300))).within(1 << 17)
    assert rows.by_rows and not rows.by_columns
    square = as_source(hdf5(tmp_path / "c", X, (40, 40))).within(1 << 17)
    assert not square.by_rows and not square.by_columns


def test_open_arrays_are_read_where_they_lie(tmp_path, rng):
    X = matrix(rng)
    with h5py.File(hdf5(tmp_path / "a.h5", X)) as file:
        for data in (file["group/X"], zarr.open(str(zarr3(tmp_path / "a.zarr", X)))):
            model = vrpca.PCA(2, random_state=0).fit(data)
            wanted = vrpca.PCA(2, random_state=0).fit(X)
            np.testing.assert_allclose(model.singular_values_, wanted.singular_values_, rtol=1e-10)
            np.testing.assert_allclose(np.abs(model.transform(data)), np.abs(wanted.transform(X)), atol=1e-8)


def test_one_of_several_matrices_is_named(tmp_path, rng):
    X = matrix(rng)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/train"], file["test"] = X, X[:50]
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("deep/train", data=X)
    group.create_array("test", data=X[:50])
    for name in ("a.h5", "a.zarr"):
        assert_same_rows(f"{tmp_path / name}::deep/train", X)
        assert_same_rows(f"{tmp_path / name}::test", X[:50])
        with pytest.raises(DataError, match=r"must hold one matrix.*deep/train, test\. Name it as in .*::NAME"):
            vrpca.open_data(tmp_path / name)
        with pytest.raises(DataError, match=r"holds no 'other': there is .*test"):
            vrpca.open_data(f"{tmp_path / name}::other")
    with pytest.raises(DataError, match="is one array: leave out ::x"):
        vrpca.open_data(f"{zarr3(tmp_path / 'b.zarr', X)}::x")


def test_a_wrong_name_is_answered_with_the_matrices_that_there_are(tmp_path, rng):
    """Sparse ones, too; the closest name comes first, then those where AnnData keeps what is fitted."""
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    X = matrix(rng)
    cells = anndata.AnnData(X, obsm={"X_pca": X[:, :2]}, varm={"PCs": X.T[:, :2]})
    cells.layers["counts"], cells.layers["raw"] = sp.csr_matrix(X), sp.csc_matrix(X)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a version of the format
        cells.write_zarr(tmp_path / "cells.zarr")
    for name in ("cells.h5ad", "cells.zarr"):
        wanted = r"holds no 'layers/count': there is layers/counts, X, layers/raw, obsm/X_pca, varm/PCs\."
        with pytest.raises(DataError, match=wanted):
            vrpca.open_data(f"{tmp_path / name}::layers/count")


def test_a_group_with_one_matrix_needs_no_name(tmp_path, rng):
    X = matrix(rng)
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    group.create_array("X", data=X)
    group.create_array("y", data=X[:, 0])
    assert_same_rows(tmp_path / "a.zarr", X)


# ------------------------------------------------------------------------------------------------------------ annotated


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(3)
    return sp.csr_array(np.round(np.maximum(matrix(rng, 200, 60) - 1, 0)))


def annotated(path, X, layer=None):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed: pip install 'vrpca[test-anndata]'")
    adata = anndata.AnnData(X)
    adata.obs_names = [f"cell {i}" for i in range(X.shape[0])]
    adata.var_names = [f"gene {j}" for j in range(X.shape[1])]
    if layer is not None:
        adata.layers["counts"] = layer
    adata.write_h5ad(path)
    return adata


def in_form(X, form, dtype=np.float64):
    X = X.astype(dtype)
    return X.toarray() if form == "dense" else X.asformat(form)


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_annotated_matrices(tmp_path, counts, form, dtype):
    X = in_form(counts, form, dtype)
    annotated(tmp_path / "a.h5ad", X, in_form(counts * 2, form, dtype))
    for name, times in (("", 1), ("::layers/counts", 2)):
        source = as_source(f"{tmp_path / 'a.h5ad'}{name}").within(1 << 12)
        assert source.sparse == (form != "dense") and source.by_columns == (form == "csc")
        assert_same_rows(source, (counts * times).toarray())
        assert source.row_names[7] == "cell 7" and list(source.column_names[:2]) == ["gene 0", "gene 1"]
    assert_same_answer(source, counts * 2)
    assert_same_answer(source, counts * 2, scale=True, sample_weight=np.arange(200.0))


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_annotated_objects(tmp_path, counts, form):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed: pip install 'vrpca[test-anndata]'")
    adata = annotated(tmp_path / "a.h5ad", in_form(counts, form))
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    wanted = vrpca.PCA(3, random_state=0, tol=1e-12).fit(counts)
    for data in (adata, backed):
        model = vrpca.PCA(3, random_state=0, tol=1e-12).fit(data)
        np.testing.assert_allclose(model.singular_values_, wanted.singular_values_, rtol=1e-10)
        np.testing.assert_allclose(np.abs(model.transform(data)), np.abs(wanted.transform(counts)), atol=1e-4)
    assert as_source(backed).row_names[3] == "cell 3"
    with pytest.raises(DataTypeError, match=r"a part of an AnnData object in a file.*to_memory\(\)"):
        as_source(backed[:50])
    with pytest.raises(DataError, match="has no X"):
        as_source(anndata.AnnData(obs={"a": [1, 2]}))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_index_types_of_sparse_groups(tmp_path, counts, form, index):
    X = counts.asformat(form)
    write_group(tmp_path / "a.h5", X, index)
    source = as_source(f"{tmp_path / 'a.h5'}::X").within(1 << 12)
    assert_same_rows(source, counts.toarray())
    assert {block.indices.dtype for _, block in source.blocks()} <= {np.dtype(np.int32), np.dtype(index)}


def test_annotated_zarr_stores(tmp_path, counts):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed: pip install 'vrpca[test-anndata]'")
    for form in ("dense", "csr", "csc"):
        with warnings.catch_warnings():  # anndata and zarr talk about each other's versions
            warnings.simplefilter("ignore")
            anndata.AnnData(in_form(counts, form)).write_zarr(tmp_path / f"{form}.zarr")
        assert_same_rows(as_source(tmp_path / f"{form}.zarr").within(1 << 15), counts.toarray())


# -------------------------------------------------------------------------------------------------------- what is wrong


def write_group(path, X, index=np.int32, **parts):
    """A sparse matrix as anndata writes it, with other parts than it has."""
    given = {"data": X.data, "indices": X.indices.astype(index), "indptr": X.indptr.astype(index)} | parts
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = f"{X.format}_matrix", X.shape
        for name, part in given.items():
            group[name] = part


def test_sparse_groups_that_cannot_be(tmp_path, counts):
    falling, wild = counts.indptr.copy(), counts.indices.copy()
    falling[5] = falling[9]
    wild[counts.indptr[150]] = 60
    for number, (parts, message) in enumerate(
        (
            ({"indptr": falling}, "do not ascend"),
            ({"indptr": counts.indptr[:-1]}, "do not ascend"),
            ({"indices": wild}, r"rows 1\d\d to 1\d\d: .*an index is 60, but it must lie in 0..59"),
            ({"indices": counts.indices - 1}, "an index is -1"),
            ({"data": counts.data[:-3]}, r"has \d+ indices and \d+ values"),
            ({"indptr": np.append(counts.indptr[:-1], counts.nnz - 1)}, r"its rows end at entry \d+, but it has"),
            ({"data": np.array(["a"] * counts.nnz, "S1")}, "entries of type"),
        )
    ):
        path = tmp_path / f"{number}.h5"
        write_group(path, counts, **parts)
        with pytest.raises(DataError, match=message) as caught:
            vrpca.pca(as_source(f"{path}::X").within(1 << 12), 2)
        assert str(path) in str(caught.value)


def test_what_is_no_matrix(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["cube"], file["text"] = np.zeros((3, 4, 5)), np.array([["a", "b"]], "S1")
        file["empty"], file["complex"] = np.zeros((0, 4)), np.zeros((3, 4), complex)
        file.create_group("group")
    for name, message in (
        ("cube", "has 3 dimensions, not 2"),
        ("text", "entries of type"),
        ("empty", "0 sample"),
        ("complex", "Complex data not supported"),
        ("group", "is a group"),
    ):
        with pytest.raises(DataError, match=message):
            vrpca.open_data(f"{tmp_path / 'a.h5'}::{name}")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["one"], file["other"] = np.zeros((2, 2)), np.zeros((2, 2))
    with pytest.raises(DataError, match=r"must hold one matrix, or be told which: found one, other"):
        vrpca.open_data(tmp_path / "b.h5")


def test_nan_in_a_late_block_has_its_place(tmp_path, rng):
    X = matrix(rng)
    X[77, 4] = np.nan
    for write in (hdf5, zarr3):
        source = as_source(write(tmp_path / write.__name__, X)).within(30 * 8 * 13)
        with pytest.raises(DataError, match=r"NaN \(row 77, column 4\)"):
            vrpca.pca(source, 1)


def test_truncated_and_foreign_files(tmp_path, rng):
    path = hdf5(tmp_path / "a.h5", matrix(rng))
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(DataError, match=r"a.h5 is truncated or damaged: .*Write or copy it again"):
        vrpca.open_data(path)
    store = zarr3(tmp_path / "a.zarr", matrix(rng))
    chunk = next(path for path in sorted((store / "c").rglob("*"), reverse=True) if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:10])
    with pytest.raises(DataError, match=r"a.zarr cannot be read from row \d+ on: .*Write or copy it again"):
        vrpca.pca(as_source(store).within(30 * 8 * 13), 1)
    (store / "zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"a.zarr is truncated or damaged"):
        vrpca.open_data(store)


def test_damaged_chunks_have_their_place(tmp_path, rng):
    path = packed_hdf5(tmp_path / "a.h5", matrix(rng, 400), (50, 30))
    with h5py.File(path) as file:
        info = file["group/X"].id.get_chunk_info(5)
    content = bytearray(path.read_bytes())
    content[info.byte_offset : info.byte_offset + 100] = b"\xff" * 100
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"group/X cannot be read from row 250 on"):
        vrpca.pca(as_source(path).within(30 * 8 * 50), 1)


def test_a_check_reads_columns_twice(tmp_path, counts):
    annotated(tmp_path / "a.h5ad", counts.asformat("csc"))
    model = vrpca.PCA(3, random_state=0, tol=1e-10).fit(counts)
    by_columns = check(model, as_source(tmp_path / "a.h5ad").within(1 << 12), tol=1e-8)
    by_rows = check(model, counts, tol=1e-8)
    assert by_columns.verdict == by_rows.verdict == "proven"
    assert by_columns.n_passes == 1 + 2 * (by_rows.n_passes - 1)
    np.testing.assert_allclose(by_columns.explained_variance_ratio, by_rows.explained_variance_ratio, rtol=1e-10)
    model.components_[1] = np.eye(60)[7]
    assert check(model, as_source(tmp_path / "a.h5ad").within(1 << 12)).verdict == "wrong"


def test_the_command_line_takes_names_within_files(tmp_path, rng):
    from typer.testing import CliRunner

    from vrpca.cli.app import app

    path = hdf5(tmp_path / "a.h5", matrix(rng))
    fitted = CliRunner().invoke(app, ["fit", f"{path}::group/X", "-k", "2", "--out", str(tmp_path / "model.npz"), "-q"])
    assert fitted.exit_code == 0, fitted.output
    refused = CliRunner().invoke(app, ["fit", f"{path}::group/X", "-k", "2", "--out", str(path)])
    assert refused.exit_code != 0 and "would replace DATA" in str(refused.exception)


def test_the_kind_of_a_sparse_group_may_be_a_text_of_fixed_length(tmp_path, rng):
    X = sp.csr_array(np.round(matrix(rng)))
    with h5py.File(tmp_path / "X.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = np.bytes_("csr_matrix"), X.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)
    assert_same_rows(f"{tmp_path / 'X.h5ad'}::X", X.toarray())
