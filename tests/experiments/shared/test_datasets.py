"""The data sets: generated ones have their spectrum, files keep their content, and errors say what is missing."""

import numpy as np
import pytest
import scipy.sparse as sp

from vrpca.errors import DataError, OptionError
from vrpca.experiments.shared.datasets import (
    CENTRED,
    DATASETS,
    TO_CENTRE,
    UNCENTRED,
    bag_of_words,
    load,
    open_array,
    prepare,
)

GENERATED = [name for name, recipe in DATASETS.items() if not recipe.file]


def test_files_as_arrays(tmp_path, monkeypatch):
    monkeypatch.setenv("VRPCA_CACHE", str(tmp_path / "cache"))
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "X.npy", X)
    np.savetxt(tmp_path / "X.csv", X, delimiter=",", header="a,b,c", comments="")
    np.testing.assert_array_equal(open_array(tmp_path / "X.csv"), X)
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: 100.0)
    np.testing.assert_array_equal(open_array(tmp_path / "X.npy"), X)
    with pytest.raises(DataError, match=r"X\.csv does not fit in memory, or is several files"):
        open_array(tmp_path / "X.csv")


@pytest.mark.parametrize("name", GENERATED)
def test_generated_sets_are_what_they_say(tmp_path, name):
    data = prepare(name, tmp_path, small=True)
    X = load(data.path)
    assert (X.shape, str(X.dtype), data.nnz, data.center) == (data.shape, data.dtype, None, DATASETS[name].center)
    if data.center == CENTRED:
        assert np.abs(X.mean(axis=0, dtype=np.float64)).max() < 1e-7 * np.abs(X).max()
    before = (tmp_path / "data").stat().st_mtime_ns
    assert prepare(name, tmp_path, small=True) == data
    assert (tmp_path / "data").stat().st_mtime_ns == before


def test_the_papers_singular_values(tmp_path):
    X = load(prepare("paper", tmp_path, small=True).path).astype(np.float64)
    s = np.linalg.svd(X, compute_uv=False) / np.sqrt(len(X))
    np.testing.assert_allclose(s[:6], [1, 0.95, 0.945, 0.94, 0.935, 0.93], rtol=1e-6)
    assert s[6] < 0.05


def test_clustered_eigenvalues(tmp_path):
    X = load(prepare("clustered-5", tmp_path, small=True).path).astype(np.float64)
    values = np.linalg.eigvalsh(X.T @ X / len(X))[::-1]
    assert values[:30].sum() == pytest.approx(1 + 29 * 0.9, rel=0.02)
    assert values[30] < 0.1


def test_real_sets(tmp_path):
    """MNIST is standardised, counts are scaled per cell."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (60, 12), dtype=np.uint8)
    pixels[:, 3] = 7
    np.savez(tmp_path / "mnist.npz", X=pixels, y=np.zeros(60))
    counts = sp.csr_matrix(rng.poisson(0.5, (40, 15)).astype(np.float32))
    sp.save_npz(tmp_path / "pbmc.npz", counts)
    mnist = prepare("mnist", tmp_path / "cache", folder=tmp_path)
    X = load(mnist.path)
    assert mnist.center == CENTRED and X.dtype == np.float32
    np.testing.assert_allclose(X.std(axis=0), np.where(np.arange(12) == 3, 0, 1 / np.sqrt(12)), atol=1e-6)
    pbmc = prepare("pbmc", tmp_path / "cache", folder=tmp_path)
    totals = np.expm1(load(pbmc.path).toarray().astype(np.float64)).sum(axis=1)
    assert pbmc.center == TO_CENTRE and pbmc.nnz == counts.nnz
    np.testing.assert_allclose(totals, 1e4, rtol=1e-5)


def test_absent_files(tmp_path):
    with pytest.raises(DataError, match=r"rcv1.*not there.*--data"):
        prepare("rcv1", tmp_path, folder=tmp_path)
    with pytest.raises(DataError, match="no data file"):
        prepare(str(tmp_path / "nowhere.npy"), tmp_path)
    with pytest.raises(OptionError, match=r"neither a file nor a data set.*mnist"):
        prepare("mnits", tmp_path)


def test_files_of_the_user(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    plain, ordered, integers, sparse = (tmp_path / f"{name}.npy" for name in "abcd")
    np.save(plain, X)
    np.save(ordered, np.asfortranarray(X))
    np.save(integers, (10 * X).astype(np.int64))
    sp.save_npz(sparse.with_suffix(".npz"), sp.csc_matrix(X * (X > 1)))
    cache = tmp_path / "cache"
    same = prepare(str(plain), cache)
    assert (same.path, same.center) == (str(plain), TO_CENTRE)
    assert prepare(str(ordered), cache).key == same.key
    assert prepare(str(integers), cache).dtype == "float64"
    data = prepare(str(sparse.with_suffix(".npz")), cache, center=False)
    assert data.sparse and data.center == UNCENTRED
    np.testing.assert_array_equal(load(data.path).toarray(), X * (X > 1))
    np.save(plain, X.astype(complex))
    with pytest.raises(DataError, match="complex"):
        prepare(str(plain), cache)


def test_bags_of_words():
    X = bag_of_words(50, d=200, per_row=20)
    assert X.shape == (50, 200) and X.has_canonical_format and X.nnz <= 1000
    assert X[:, :50].sum() > 2 * X[:, 50:100].sum()
