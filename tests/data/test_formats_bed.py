"""PLINK's .bed files: genotypes, imputation and scaling, against bed-reader and plain arithmetic."""

import pickle

import numpy as np
import pytest
from format_cases import assert_same_answer, read

import vrpca
from vrpca.check import check
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


def write(path, G, names=None, alleles=("A", "G")):
    names = [f"person{i}" for i in range(len(G))] if names is None else names
    first, second = ([letter] * G.shape[1] for letter in alleles)
    bed_reader.to_bed(path, G, properties={"iid": names, "allele_1": first, "allele_2": second})
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
    for flag in ([], ["--scale-genotypes"]):
        assert run(["transform", model, path, "--out", out, *flag]) == 0
        np.testing.assert_allclose(np.abs(np.load(out)), np.abs(wanted.U * wanted.s), atol=1e-3)
        assert run(["check", model, path, *flag]) == 0
    assert run(["report", model, path, "--out", str(tmp_path / "page.html")]) == 0
    assert run(["info", path, "--scale-genotypes"]) == 0
    capsys.readouterr()
    np.save(tmp_path / "a.npy", np.eye(5))
    assert run(["fit", str(tmp_path / "a.npy"), "-k", "2", "--scale-genotypes"]) == 2
    assert "is for .bed files, not for" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- people who were not in the fit


ROUNDING = 1e-5  # of scores in float32, as a part of the largest one


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=ROUNDING * np.abs(wanted).max())


@pytest.fixture
def study(tmp_path, rng):
    """A study of 90 people, and two of them in a file of their own."""
    G = genotypes(rng, 90, 60, missing=0.1)
    return write(tmp_path / "study.bed", G), write(tmp_path / "two.bed", G[[7, 31]], ["person7", "person31"])


@pytest.mark.parametrize("scaling", [None, "genotype"])
@pytest.mark.parametrize(
    "make", [lambda: vrpca.PCA(3, random_state=0), lambda: vrpca.TruncatedSVD(3, random_state=0)], ids=["PCA", "SVD"]
)
def test_people_alone_have_the_scores_of_the_study(study, tmp_path, scaling, make):
    path, two = study
    data = vrpca.open_data(path, scaling=scaling)
    model = make().fit(data)
    wanted = model.transform(data)[[7, 31]]
    vrpca.save(model, tmp_path / "model.npz")
    for each in (model, vrpca.load(tmp_path / "model.npz")):
        close(each.transform(two), wanted)
        close(each.transform(vrpca.open_data(two, scaling=scaling)), wanted)
        close(each.transform([two]), wanted)
        close(each.set_params(memory_limit="200MB").transform(two), wanted)
    if isinstance(model, vrpca.PCA):
        density = model.score_samples(data)
        np.testing.assert_allclose(model.score_samples(two), density[[7, 31]], rtol=1e-5)
        np.testing.assert_allclose(model.score(path), density.mean(), rtol=1e-5)


def test_a_large_file_is_walked_by_columns(tmp_path, rng):
    G = genotypes(rng, 900, 6000)
    path, two = write(tmp_path / "a.bed", G), write(tmp_path / "two.bed", G[[7, 31]])
    data = vrpca.open_data(path, scaling="genotype")
    assert as_source(data).by_columns
    model = vrpca.PCA(2, random_state=0, tol=1e-3).fit(data)
    close(model.transform(two), model.transform(path)[[7, 31]])
    assert check(model, path, tol=1e-2).ok


def test_the_fit_keeps_its_frequencies(study):
    path, _ = study
    G = bed_reader.open_bed(path).read(dtype="float64")
    data = vrpca.open_data(path, scaling="genotype")
    model = vrpca.PCA(2, random_state=0).fit(data)
    np.testing.assert_allclose(model.allele_frequencies_, imputed(G)[1] / 2, rtol=1e-15)
    assert model.genotypes_scaled_ and list(model.alleles_) == ["A/G"] * 60
    fresh = vrpca.open_data(path)  # nothing of it has been decoded yet
    np.testing.assert_array_equal(fresh.allele_frequencies(), model.allele_frequencies_)
    model.fit(np.eye(5))
    assert model.allele_frequencies_ is None and model.alleles_ is None and not model.genotypes_scaled_


def test_a_right_model_is_proven_whatever_the_file_is_opened_with(study):
    path, _ = study
    model = vrpca.PCA(3, random_state=0).fit(vrpca.open_data(path, scaling="genotype"))
    for data in (path, vrpca.open_data(path), vrpca.open_data(path, scaling="genotype")):
        assert check(model, data).verdict == "proven"


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_scaled_genotypes_for_a_model_without_scaling(study, tmp_path, capsys):
    path, two = study
    scaled = vrpca.open_data(two, scaling="genotype")
    without = r"two.bed is opened with scaled genotypes, but the model was fitted without.*Leave out --scale-genotypes"
    unknown = r"two.bed is opened with scaled genotypes, but the model knows no allele frequencies.*fit it again"
    genotypes, array = vrpca.PCA(2).fit(vrpca.open_data(path)), vrpca.PCA(2).fit(read(vrpca.open_data(path)))
    for model, message in ((genotypes, without), (array, unknown)):
        for use in (model.transform, model.score_samples, lambda X, model=model: check(model, X)):
            with pytest.raises(DataError, match=message):
                use(as_named(scaled, two))
        vrpca.save(model, tmp_path / "model.npz")
        arguments = [str(tmp_path / "model.npz"), str(two), "--scale-genotypes"]
        assert run(["transform", *arguments, "--out", str(tmp_path / "scores.npy")]) == 2
        assert run(["check", *arguments]) == 2
        assert capsys.readouterr().err.count(message.split(".*")[-1]) == 2


def as_named(source, path):
    source.name = str(path)
    return source


def test_a_model_of_an_array_warns(study):
    path, two = study
    with pytest.warns(UserWarning, match="feature names"), pytest.warns(UserWarning, match="knows no allele frequen"):
        vrpca.PCA(2).fit(read(vrpca.open_data(path))).transform(two)


def test_other_variants_are_refused(study, tmp_path, rng):
    path, two = study
    model = vrpca.PCA(2).fit(vrpca.open_data(path, scaling="genotype"))
    with pytest.raises(DataError, match="X has 59 features, but the model was fitted on 60"):
        model.transform(write(tmp_path / "fewer.bed", genotypes(rng, 4, 59)))
    bim = two.with_suffix(".bim")
    bim.write_text(bim.read_text().replace("sid8", "other"))
    with pytest.raises(DataError, match="column 7 is 'other', but was 'sid8'"):
        model.transform(two)


def test_other_alleles_are_refused(study, tmp_path):
    """PLINK counts the rarer allele, which may be another one among other people."""
    path, two = study
    G = bed_reader.open_bed(two).read(dtype="float64")
    model = vrpca.PCA(2, random_state=0).fit(vrpca.open_data(path, scaling="genotype"))
    swapped = write(tmp_path / "swapped.bed", 2 - G, alleles=("G", "A"))
    message = r"swapped.bed has the alleles G/A of sid1, but they were A/G .* 60 of 60 variants.*--a1-allele"
    for use in (model.transform, lambda X: check(model, X)):
        with pytest.raises(DataError, match=message):
            use(swapped)
    close(model.transform(write(tmp_path / "one.bed", G, alleles=("0", "G"))), model.transform(two))
    with pytest.raises(DataError, match="alleles 0/A"):
        model.transform(write(tmp_path / "other.bed", G, alleles=("0", "A")))


def test_several_files_are_not_scaled(study):
    with pytest.raises(OptionError, match=r"is for one .bed file, not for several: merge them with plink"):
        vrpca.open_data(list(study), scaling="genotype")


def test_several_files_are_fitted_without_scaling(study):
    paths = list(study)
    model = vrpca.PCA(2, random_state=0).fit(paths)
    assert model.allele_frequencies_ is None
    with pytest.warns(UserWarning, match="knows no allele frequencies"):
        assert model.transform(paths).shape == (92, 2)


def test_chunks_for_workers_know_the_frequencies(study):
    pytest.importorskip("dask", reason="dask is not installed: pip install 'vrpca[dask]'")
    from vrpca.data.cluster.opening import file_source

    path, two = study
    chunks = file_source(as_source(vrpca.open_data(path, scaling="genotype")))
    model = vrpca.PCA(2, random_state=0).fit(chunks)
    close(model.transform(two), model.transform(chunks)[[7, 31]])


def test_several_files_count_the_same_alleles(tmp_path, rng):
    """An allele that nobody in a file has is unknown there, and agrees with any."""
    G = genotypes(rng, 30, 12, missing=0.0)
    first = write(tmp_path / "a.bed", G[:15])
    unknown = write(tmp_path / "b.bed", G[15:], [f"other{i}" for i in range(15)], alleles=("0", "G"))
    swapped = write(tmp_path / "c.bed", G[15:], [f"other{i}" for i in range(15)], alleles=("G", "A"))
    assert vrpca.open_data([first, unknown]).shape == (30, 12)
    for files in ([first, swapped], [unknown, first, swapped]):
        with pytest.raises(DataError, match=r"c.bed and the files before it have different alleles"):
            vrpca.open_data(files)
    assert set(vrpca.open_data([unknown, first]).alleles) == {"A/G"}
