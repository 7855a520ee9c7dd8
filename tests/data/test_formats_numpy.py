"""NumPy's files and matrices in several files: read block by block where they do not fit, or one clear error."""

import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from data_cases import check_blocks

import vrpca
from helpers import gather
from vrpca.cli.app import run
from vrpca.data.files import open_data
from vrpca.data.files.base import DenseFile, FileSource, SparseFile
from vrpca.data.files.raw import RawCsr, RawFile
from vrpca.data.files.shards import DenseShards, HeldArray, HeldMatrix, SparseShards
from vrpca.data.open import as_source
from vrpca.errors import DataError


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("VRPCA_CACHE", str(folder))
    return folder


@pytest.fixture
def little_memory(monkeypatch):
    """Nothing fits in memory."""
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: 500.0)


@pytest.fixture
def X(rng):
    return rng.standard_normal((90, 6)) * [9, 5, 3, 1, 0.5, 0.3]


def thin(X):
    return X * (np.abs(X) > 0.6)


def check_same(source, X, rtol=1e-10):
    """The source has the entries of X, and so the answer of X."""
    check_blocks(source, X)
    check_blocks(source.transposed(), X.T)
    found, expected = vrpca.pca(source, 2, random_state=0), vrpca.pca(np.asarray(X, float), 2, random_state=0)
    np.testing.assert_allclose(found.s, expected.s, rtol=rtol)


# -------------------------------------------------------------------------------------------------------- .npy and .npz


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<i4"])
@pytest.mark.parametrize("save", [np.save, lambda path, X: np.savez(path, y=np.ones(3), X=X)], ids=["npy", "npz"])
def test_large_dense_files_are_read_block_by_block(X, tmp_path, little_memory, save, dtype, order):
    X = np.asarray((10 * X).astype(dtype), order=order)
    with (tmp_path / "data").open("wb") as file:
        save(file, X)
    source = as_source(tmp_path / "data").within(500)
    assert isinstance(source if order == "C" else source.transposed(), RawFile) and source.slow_to_read
    assert source.columnwise == (order == "F")
    check_same(source, X)


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_large_sparse_archives_are_read_block_by_block(X, tmp_path, little_memory, kind, dtype, monkeypatch):
    monkeypatch.setattr("vrpca.data.files.buckets.BUCKET_BYTES", 1000)
    monkeypatch.setattr("vrpca.data.files.npz.CHUNK", 77)
    X = thin(10 * X).astype(dtype)
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X).asformat(kind), compressed=False)
    source = as_source(tmp_path / "X.npz").within(500)
    assert isinstance(source, RawCsr) and source.slow_to_read and source.entries == np.count_nonzero(X)
    check_same(source, X, 1e-10 if source.dtype == np.float64 else 1e-5)


@pytest.mark.parametrize(
    "save",
    [
        lambda path, X: np.savez_compressed(path, X=X),
        lambda path, X: sp.save_npz(path, sp.csr_array(X)),
        lambda path, X: sp.save_npz(path, sp.coo_array(X), compressed=False),
    ],
    ids=["dense", "csr", "coo"],
)
def test_what_does_not_fit_and_cannot_be_read_in_parts_is_refused_with_the_remedy(X, tmp_path, little_memory, save):
    save(tmp_path / "X.npz", X)
    with pytest.raises(
        DataError, match=r"X\.npz would take more than half.*Write it without compression: (numpy|scipy)"
    ):
        open_data(tmp_path / "X.npz")


def test_small_archives_are_loaded(X, tmp_path):
    np.savez(tmp_path / "X.npz", X=X)
    assert type(open_data(tmp_path / "X.npz")) is np.ndarray
    sp.save_npz(tmp_path / "S.npz", sp.csr_array(X), compressed=False)
    assert sp.issparse(open_data(tmp_path / "S.npz"))


@pytest.mark.parametrize(
    "change",
    [
        {"indptr": np.array([0, 5])},
        {"indptr": np.arange(91) * 1000},
        {"indptr": np.arange(91)[::-1].copy()},
        {"indices": np.ones(500)},
        {"shape": np.array([90, 6, 1])},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_damaged_large_archives(X, tmp_path, little_memory, change, kind):
    S = sp.csr_array(X).asformat(kind)
    parts = {"format": kind.encode(), "shape": S.shape, "data": S.data, "indices": S.indices, "indptr": S.indptr}
    np.savez(tmp_path / "X.npz", **(parts | change))
    with pytest.raises(DataError, match=r"X\.npz is (truncated or )?damaged"):
        gather(as_source(tmp_path / "X.npz"))


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_wild_indices_of_large_archives(X, tmp_path, little_memory, kind):
    S = sp.csr_array(X).asformat(kind)
    S.indices[100] = 10**6
    parts = {"format": kind.encode(), "shape": S.shape, "data": S.data, "indices": S.indices, "indptr": S.indptr}
    np.savez(tmp_path / "X.npz", **parts)
    with pytest.raises(DataError, match=r"X\.npz is damaged.*(index is 1000000|row is out of range)"):
        gather(as_source(tmp_path / "X.npz"))


def test_truncated_large_archives(X, tmp_path, little_memory):
    np.savez(tmp_path / "X.npz", X=X)
    data = (tmp_path / "X.npz").read_bytes()
    for cut in (40, len(data) // 2, len(data) - 30):
        (tmp_path / "X.npz").write_bytes(data[:cut])
        with pytest.raises(DataError, match=r"X\.npz is truncated or damaged"):
            open_data(tmp_path / "X.npz")


@pytest.mark.parametrize("extra", [b"", b"\x01\x00\x04\x00abcd"])
def test_members_with_extra_fields_are_found(X, tmp_path, little_memory, extra):
    """The header before a member need not be as long as the one in the directory."""
    np.save(tmp_path / "X.npy", X)
    info = zipfile.ZipInfo("X.npy")
    info.extra = extra
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.writestr("first.txt", "something")
        archive.writestr(info, (tmp_path / "X.npy").read_bytes())
    np.testing.assert_array_equal(gather(as_source(tmp_path / "X.npz")), X)


@pytest.mark.parametrize("solver", ["gram", "krylov", "accelerated", "vr"])
def test_nan_in_a_late_block_is_named(X, tmp_path, little_memory, solver):
    X[77, 4] = np.nan
    np.save(tmp_path / "X.npy", X)
    source = as_source(tmp_path / "X.npy").within(11 * 6 * 8)  # row 77 is in block 7
    with pytest.raises(DataError, match=r"NaN \(row 77, column 4\)"):
        vrpca.pca(source, 2, solver=solver)


@pytest.mark.parametrize("save", [np.save, lambda path, X: np.savez(path, X=X)], ids=["npy", "npz"])
def test_files_without_rows_are_named(tmp_path, save):
    with (tmp_path / "data").open("wb") as file:
        save(file, np.zeros((0, 5)))
    with pytest.raises(DataError, match=r"data has 0 samples \(shape \(0, 5\)\)"):
        open_data(tmp_path / "data")


# --------------------------------------------------------------------------------------------------------------- shards


def write_shards(folder, X, kind="npy"):
    """Rows in parts of unequal length, with numbers that do not sort as text."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.split(X, [1, 30, 31, 60, 61, 62, 63, 64, 65, 66, 80]), 1):
        path = folder / f"part-{number}.{kind}"
        if kind == "npy":
            np.save(path, rows)
        elif kind == "npz":
            np.savez_compressed(path, X=rows)
        elif kind == "csv":
            path.write_text("a,b,c,d,e,f\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows.tolist()))
        else:
            sp.save_npz(folder / f"part-{number}.npz", sp.csr_array(rows), compressed=kind == "packed")
    return folder


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "sparse", "packed"])
@pytest.mark.parametrize("how", ["folder", "pattern", "list"])
def test_shards_are_one_matrix_in_natural_order(X, tmp_path, kind, how):
    X = thin(X)
    folder = write_shards(tmp_path / "data", X, kind)
    ending = kind if kind in ("npy", "csv") else "npz"
    names = [str(folder / f"part-{number}.{ending}") for number in range(1, 13)]
    given = {"folder": folder, "pattern": f"{folder}/part-*.{ending}", "list": names}[how]
    source = as_source(given).within(400)
    assert isinstance(source, SparseShards if kind in ("sparse", "packed") else DenseShards)
    assert not source.slow_to_read
    assert source.column_names == (list("abcdef") if kind == "csv" else None)
    check_same(source, X)
    check_same(pickle.loads(pickle.dumps(source)), X)


@pytest.mark.parametrize("kind", ["npz", "packed"])
def test_shards_that_cannot_be_kept_are_loaded_when_they_are_needed(X, tmp_path, monkeypatch, kind):
    """Each of them fits in memory, but not all together."""
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: 5000.0)
    X = thin(X)
    source = as_source(write_shards(tmp_path / "data", X, kind)).within(400)
    held = [part.X for part in source.parts if isinstance(part, HeldArray | HeldMatrix)]
    assert len(held) == 12 and held[0] is not None and held[-1] is None
    check_same(source, X)
    numbers, rows, _ = source.sample(20, np.random.default_rng(0))
    np.testing.assert_array_equal(rows.toarray() if source.sparse else rows, X[numbers])


def test_shards_of_large_files(X, tmp_path, little_memory):
    source = as_source(write_shards(tmp_path / "data", X))
    assert source.slow_to_read and source.block_bytes == 16 << 20
    check_same(source, X)
    packed = as_source(write_shards(tmp_path / "more", thin(X), "sparse")).within(300)
    check_same(packed, thin(X))


def test_types_are_promoted_and_formats_mixed(X, tmp_path):
    np.save(tmp_path / "1.npy", np.asfortranarray(X[:30].astype(np.float32)))
    np.save(tmp_path / "2.npy", np.round(X[30:50]).astype(np.int16))
    np.savez(tmp_path / "3.npz", X=X[50:])
    source = as_source(tmp_path).within(300)
    assert source.dtype == np.float64
    check_same(source, np.vstack([X[:30].astype(np.float32), np.round(X[30:50]), X[50:]]))


def test_small_blocks_of_neighbours_are_put_together(X, tmp_path):
    source = as_source(write_shards(tmp_path / "data", X))
    assert len(list(source.blocks())) == 1
    assert 12 >= len(list(source.within(30 * 6 * 8).blocks())) >= 3


def test_what_is_skipped_in_folders(X, tmp_path):
    folder = write_shards(tmp_path / "data", X)
    np.save(folder / "part-5b.npy", np.zeros((0, 6)))  # no rows
    for name in (".hidden.npy", "_SUCCESS"):
        (folder / name).write_text("no data")
    np.testing.assert_array_equal(gather(as_source(folder)), X)


def ragged(folder):
    np.save(folder / "part-7.npy", np.ones((3, 5)))


def mixed(folder):
    sp.save_npz(folder / "part-7.npz", sp.csr_array(np.ones((3, 6))))


def cut(folder):
    path = folder / "part-7.npy"
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (ragged, r"part-7\.npy has 5 columns, but .*part-1\.npy has 6: all files must have the same"),
        (mixed, r"part-7\.npz is sparse, but .*part-1\.npy is dense"),
        (cut, r"part-7\.npy is truncated or damaged"),
        (lambda folder: (folder / "notes.txt").write_text("hello"), r"notes\.txt is in no known format"),
        (lambda folder: (folder / "old").mkdir(), r"has a folder old in it.*by a pattern"),
        (lambda folder: np.save(folder / "part-7.npy", np.ones(6)), r"part-7\.npy: Expected a 2D array"),
    ],
)
def test_shards_that_do_not_fit_together_are_named(X, tmp_path, capsys, spoil, message):
    folder = write_shards(tmp_path / "data", X)
    spoil(folder)
    with pytest.raises(DataError, match=message):
        as_source(folder)
    assert run(["fit", str(folder), "-k", "2", "--out", str(tmp_path / "model.npz")]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and not (tmp_path / "model.npz").exists()


def test_names_of_columns_of_shards_must_agree(X, tmp_path):
    folder = write_shards(tmp_path / "data", X, "csv")
    (folder / "part-13.csv").write_text("a,b,c,d,f,e\n1,2,3,4,5,6\n")
    with pytest.raises(DataError, match=r"part-13\.csv has a column 'f' where .*part-1\.csv has 'e'"):
        as_source(folder)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda folder: folder, "has no data files"),
        (lambda folder: f"{folder}/*.npy", r"No file matches .*\*\.npy"),
        (lambda folder: [folder / "a.npy"], "There is no data file"),
        (lambda folder: [folder], "it is a folder"),
    ],
)
def test_nothing_to_read(tmp_path, given, message):
    with pytest.raises(DataError, match=message):
        as_source(given(tmp_path))


def test_files_without_any_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((0, 3)))
    with pytest.raises(DataError, match=r"a\.npy and the other files have no rows"):
        as_source(tmp_path)


def test_names_of_rows_of_shards(tmp_path):
    (tmp_path / "1.csv").write_text("name,a\nx,1\ny,2\n")
    (tmp_path / "2.csv").write_text("name,a\nz,3\n")
    source = as_source(tmp_path)
    assert source.row_names == ["x", "y", "z"] and source.column_names == ["a"]
    model = vrpca.PCA(1).fit([tmp_path / "1.csv", str(tmp_path / "2.csv")])
    assert list(model.feature_names_in_) == ["a"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: path.unlink(), "removed"),
        (lambda path: path.write_bytes(path.read_bytes() + bytes(480)), "changed"),
        (lambda path: path.write_bytes(path.read_bytes()[:200]), "changed"),
    ],
    ids=["vanished", "grown", "shrunk"],
)
@pytest.mark.parametrize("kind", ["npy", "sparse"])
def test_a_shard_that_changes_during_a_fit_is_named(X, tmp_path, kind, change, what):
    folder = write_shards(tmp_path / "data", X, kind)
    path = next(folder.glob("part-4.*"))
    source = as_source(folder).within(400)
    with pytest.raises(DataError, match=rf"part-4\.np. was {what} while it was read"):
        vrpca.pca(source, 2, solver="krylov", tol=0, max_passes=50, callback=lambda record: change(path))


def test_the_command_line_takes_folders_and_patterns(X, tmp_path, capsys):
    folder = write_shards(tmp_path / "data", X)
    assert run(["fit", str(folder), "-k", "2", "--quiet", "--out", str(tmp_path / "model.npz")]) == 0
    assert run(["check", str(tmp_path / "model.npz"), f"{folder}/part-*.npy"]) == 0
    assert run(["transform", str(tmp_path / "model.npz"), str(folder), "--out", str(tmp_path / "scores.npy")]) == 0
    expected = vrpca.PCA(2, random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-9)
    assert run(["fit", f"{folder}/nothing-*.npy", "-k", "2"]) == 2
    assert "No file matches" in capsys.readouterr().err


def test_what_shards_are(X, tmp_path):
    """Sources that are read, whatever their files are: a process can have only so many maps."""
    source = as_source(write_shards(tmp_path / "data", X))
    assert isinstance(source, FileSource) and all(isinstance(part, RawFile) for part in source.parts)
    assert isinstance(source, DenseFile) and not isinstance(source, SparseFile)
