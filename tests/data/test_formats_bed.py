"""PLINK's .bed files: genotypes, imputation and scaling, against bed-reader and plain arithmetic."""

import pickle

import numpy as np
import pytest
from format_cases import assert_same_answer, read

import vrpca
from vrpca.cli.app import run
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError

bed_reader = pytest.importorskip("bed_reader", reason="bed-reader is not installed: pip install 'vrpca[test]'")


def genotypes(rng, n, d, missing=0.03):
    """Genotypes of three populations, some of them unknown, one of them known of nobody, one constant."""
    p = rng.uniform(0.1, 0.5, (3, d))
    G = rng.binomial(2, p[np.arange(n) % 3]).astype(np.float64)
    G[rng.random((n, d)) < missing] = np.nan
    G[:, 3], G[:, 5] = np.nan, 2
    return G


def imputed(G):
    known = np.isfinite(G)
    mean = np.where(known, G, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known, G, mean), mean


def write(path, G):
    bed_reader.to_bed(path, G, properties={"iid": [f"person{i}" for i in range(len(G))]})
    return path


@pytest.mark.parametrize("shape", [(101, 40), (100, 40), (7, 300), (6, 8), (1, 9)])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_genotypes_are_those_of_bed_reader(tmp_path, rng, shape, missing):
    G = genotypes(rng, *shape, missing)
    path = write(tmp_path / "a.bed", G)
    X, _ = imputed(bed_reader.open_bed(path).read(dtype="float64"))
    source = as_source(path)
    assert source.dtype == np.float32 and source.shape == shape
    np.testing.assert_array_equal(read(source), X.astype(np.float32))
    for block_bytes in (1 << 20, 1000):
        np.testing.assert_array_equal(read(source.transposed().within(block_bytes)), X.T.astype(np.float32))


def test_scaling_divides_by_the_deviation_of_the_frequency(tmp_path, rng):
    G = genotypes(rng, 90, 40)
    X, mean = imputed(G)
    p = mean / 2
    deviation = np.where(p * (1 - p) > 0, np.sqrt(2 * p * (1 - p)), 1)
    found = read(vrpca.open_data(write(tmp_path / "a.bed", G), scaling="genotype"))
    np.testing.assert_allclose(found, X / deviation, rtol=1e-6)


@pytest.mark.parametrize("shape", [(150, 40), (40, 150)])
def test_the_answer_is_that_of_the_array(tmp_path, rng, shape):
    G = genotypes(rng, *shape)
    X = imputed(G)[0].astype(np.float32)
    path = write(tmp_path / "a.bed", G)
    for bytes_, by_columns in ((1 << 20, False), (1 << 12, True)):
        source = as_source(path).within(bytes_)
        assert source.by_columns == by_columns
        assert_same_answer(source, X)
        assert_same_answer(source, X, scale=True)


def test_names(tmp_path, rng):
    source = as_source(write(tmp_path / "a.bed", genotypes(rng, 20, 9)))
    assert source.row_names[:2] == ["person0", "person1"] and len(source.column_names) == 9
    assert source.column_names[8] == bed_reader.open_bed(tmp_path / "a.bed").sid[8]


def test_sources_can_be_pickled(tmp_path, rng):
    source = as_source(write(tmp_path / "a.bed", genotypes(rng, 20, 9)))
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(read(again), read(source))
    assert list(again.row_names) == list(source.row_names)


def test_several_files_are_refused(tmp_path, rng):
    paths = [write(tmp_path / f"{name}.bed", genotypes(rng, 2000, 3000)) for name in "ab"]
    with pytest.raises(DataError, match="cannot be one of several files: it is stored by columns"):
        vrpca.open_data(paths)


def test_files_that_do_not_belong_together(tmp_path, rng):
    path = write(tmp_path / "a.bed", genotypes(rng, 20, 9))
    fam = path.with_suffix(".fam")
    fam.write_text(fam.read_text() * 2)
    with pytest.raises(DataError, match=r"a.bed has 48 bytes, but 40 samples .* 9 variants .* take 93\. Write"):
        vrpca.open_data(path)
    path.with_suffix(".bim").unlink()
    with pytest.raises(DataError, match=r"a.bed needs a.bim beside it, which is not there"):
        vrpca.open_data(path)


def test_truncated_empty_and_old_files(tmp_path, rng):
    path = write(tmp_path / "a.bed", genotypes(rng, 20, 9))
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(DataError, match="has 44 bytes, but"):
        vrpca.open_data(path)
    path.write_bytes(whole[:2] + b"\x00" + whole[3:])
    with pytest.raises(DataError, match=r"samples in rows, an order of old: convert it with plink --make-bed"):
        vrpca.open_data(path)
    path.write_bytes(whole[:3])
    path.with_suffix(".bim").write_text("")
    with pytest.raises(DataError, match=r"has 20 samples .* and 0 variants"):
        vrpca.open_data(path)


def test_scaling_is_for_genotypes_only(tmp_path, rng):
    with pytest.raises(OptionError, match=r"scaling='variance' must be None or 'genotype'"):
        vrpca.open_data(write(tmp_path / "a.bed", genotypes(rng, 20, 9)), scaling="variance")
    np.save(tmp_path / "a.npy", np.eye(3))
    with pytest.raises(OptionError, match=r"is for .bed files, not for .*a.npy"):
        vrpca.open_data(tmp_path / "a.npy", scaling="genotype")
    with pytest.raises(DataError, match="holds one matrix only: leave out ::x"):
        vrpca.open_data(f"{tmp_path / 'a.npy'}::x")


def test_the_command_line_scales_genotypes_in_every_command(tmp_path, rng, capsys):
    G = genotypes(rng, 60, 20)
    path, model, out = (str(tmp_path / name) for name in ("a.bed", "model.npz", "scores.npy"))
    write(path, G)
    wanted = vrpca.pca(read(vrpca.open_data(path, scaling="genotype")), 2, random_state=0)
    for limit in ([], ["--memory", "200MB"]):
        assert run(["fit", path, "-k", "2", "-q", "--scale-genotypes", "--out", model, *limit]) == 0
        found = vrpca.load(model)
        np.testing.assert_allclose(found.singular_values_, wanted.s, rtol=1e-4)
    assert run(["transform", model, path, "--scale-genotypes", "--out", out]) == 0
    np.testing.assert_allclose(np.abs(np.load(out)), np.abs(wanted.U * wanted.s), atol=1e-3)
    assert run(["check", model, path, "--scale-genotypes"]) == 0
    assert run(["check", model, path]) == 1
    assert run(["info", path, "--scale-genotypes"]) == 0
    capsys.readouterr()
    np.save(tmp_path / "a.npy", np.eye(5))
    assert run(["fit", str(tmp_path / "a.npy"), "-k", "2", "--scale-genotypes"]) == 2
    assert "is for .bed files, not for" in capsys.readouterr().err
