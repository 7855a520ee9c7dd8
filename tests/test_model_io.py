"""Model files: what is saved comes back, what is foreign is refused, and no file is ever half-written."""

import copy
import json
import math
import zipfile

import numpy as np
import pandas as pd
import pytest

import vrpca
from vrpca.errors import DataError
from vrpca.model_io import FORMAT, load_model


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(3).standard_normal((80, 9)) * np.geomspace(3, 0.1, 9)


MODELS = [
    lambda: vrpca.PCA(3, random_state=4),
    lambda: vrpca.PCA(0.8, scale=True, whiten=True, random_state=4, tol=1e-6),
    lambda: vrpca.PCA(2, center=False, solver="vr", sampling="norm", random_state=4),
    lambda: vrpca.TruncatedSVD(2, random_state=4),
]


def assert_same(a, b):
    """Every parameter and every fitted attribute is equal."""
    assert type(a) is type(b)
    assert a.get_params() == b.get_params()
    left, right = vars(a), vars(b)
    names = {name for name in left if name.endswith("_") and not name.startswith("_")}
    assert names == {name for name in right if name.endswith("_") and not name.startswith("_")}
    for name in names - {"certificate_"}:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    for name in ("suboptimality", "kind", "residuals", "angles", "mu"):
        np.testing.assert_array_equal(getattr(a.certificate_, name), getattr(b.certificate_, name), err_msg=name)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip(tmp_path, X, make, dtype):
    model = make().fit(X.astype(dtype))
    vrpca.save(model, tmp_path / "model.npz")
    again = vrpca.load(tmp_path / "model.npz")
    assert_same(model, again)
    assert again.components_.dtype == dtype
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    scores = model.transform(X)
    np.testing.assert_array_equal(again.inverse_transform(scores), model.inverse_transform(scores))


def test_feature_names(tmp_path, X):
    frame = pd.DataFrame(X, columns=[f"größe {i}" for i in range(9)])
    model = vrpca.PCA(2).fit(frame)
    vrpca.save(model, tmp_path / "model.npz")
    again = vrpca.load(str(tmp_path / "model.npz"))
    assert list(again.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"größe 0": "other"}))


def test_theory(tmp_path, X):
    theory = vrpca.Theory(gap=0.5, delta=0.2, epsilon=1e-2, r=30.0, c=2.0)
    model = vrpca.PCA(1, random_state=0).fit(X)
    model.set_params(theory=theory)
    vrpca.save(model, tmp_path / "model.npz")
    assert vrpca.load(tmp_path / "model.npz").theory == theory


def test_a_model_that_did_not_converge_says_so(tmp_path, X):
    with pytest.warns(Warning, match="max_passes"):
        model = vrpca.PCA(2, solver="power", max_passes=3, random_state=0).fit(X)
    vrpca.save(model, tmp_path / "model.npz")
    again = vrpca.load(tmp_path / "model.npz")
    assert not again.converged_ and again.status_ is vrpca.Status.PASSES
    assert again.history_ == model.history_


def test_what_json_cannot_hold_is_left_out(tmp_path, X):
    model = vrpca.PCA(2, callback=lambda record: False, random_state=np.random.default_rng(0)).fit(X)
    vrpca.save(model, tmp_path / "model.npz")
    again = vrpca.load(tmp_path / "model.npz")
    assert again.callback is None and again.random_state is None


def test_only_fitted_models_are_saved(tmp_path, X):
    with pytest.raises(ValueError, match="not fitted"):
        vrpca.save(vrpca.PCA(2), tmp_path / "model.npz")
    with pytest.raises(TypeError, match="Only fitted PCA"):
        vrpca.save(X, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_replacement_is_atomic(tmp_path, X, monkeypatch):
    path = tmp_path / "model.npz"
    vrpca.save(vrpca.PCA(2, random_state=0).fit(X), path)
    before = path.read_bytes()

    def disk_full(file, **arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", disk_full)
    with pytest.raises(DataError, match=r"model.npz cannot be written: No space.*Make room"):
        vrpca.save(vrpca.PCA(3, random_state=0).fit(X), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_replacement_of_a_file(tmp_path, X):
    path = tmp_path / "model.npz"
    for k in (2, 3):
        vrpca.save(vrpca.PCA(k, random_state=0).fit(X), path)
        assert vrpca.load(path).n_components_ == k
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def saved(tmp_path, X):
    path = tmp_path / "model.npz"
    vrpca.save(vrpca.PCA(2, random_state=0).fit(X), path)
    return path


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match="no model file"):
        vrpca.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("kept", [0, 10, 0.5, -30])
def test_truncated_file(saved, kept):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    with pytest.raises(DataError, match="not a vrpca model, or is damaged"):
        vrpca.load(saved)


def test_foreign_files(tmp_path, X):
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "b.npz", X=X)
    np.savez(tmp_path / "c.npz", metadata=np.asarray("not json"))
    np.savez(tmp_path / "d.npz", metadata=np.asarray("[1, 2]"))
    (tmp_path / "e.txt").write_text("hello")
    for path in tmp_path.iterdir():
        with pytest.raises(DataError, match="not a vrpca model"):
            vrpca.load(path)


def rewrite(path, change):
    with np.load(path) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays.pop("metadata")))
    change(metadata)
    np.savez(path, metadata=np.asarray(json.dumps(metadata)), **arrays)


def test_newer_format(saved):
    rewrite(saved, lambda metadata: metadata.update(format=FORMAT + 1, vrpca="9.0"))
    with pytest.raises(DataError, match=rf"model format {FORMAT + 1}.*9\.0"):
        vrpca.load(saved)


def test_unknown_model(saved):
    rewrite(saved, lambda metadata: metadata.update(model="NMF"))
    with pytest.raises(DataError):
        vrpca.load(saved)


# --------------------------------------------------------------------------------------------- damaged or foreign files


def contents(path):
    with np.load(path) as file:
        return dict(file)


@pytest.fixture(scope="module")
def full(tmp_path_factory, X):
    """A model file with all arrays that there are."""
    path = tmp_path_factory.mktemp("full") / "model.npz"
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(9)])
    model = vrpca.PCA(2, scale=True, random_state=0).fit(table)
    model.allele_frequencies_, model.genotypes_scaled_ = np.linspace(0.1, 1, 9), True  # as of genotypes
    model.alleles_ = np.array(["A/G"] * 9, dtype=object)
    vrpca.save(model, path)
    return path


ARRAYS = [
    "components_",
    "singular_values_",
    "explained_variance_",
    "explained_variance_ratio_",
    "mean_",
    "scale_",
    "allele_frequencies_",
    "residuals",
    "angles",
]
TEXTS = ["feature_names_in_", "alleles_"]


def refused(path, message):
    """Loading fails with one error that names the file, the cause and the remedy."""
    with pytest.raises(DataError, match=rf"not a vrpca model, or is damaged: .*{message}.*\. Write it again") as caught:
        vrpca.load(path)
    assert str(path) in str(caught.value)


def test_the_tests_know_all_arrays(full):
    assert {*ARRAYS, *TEXTS, "metadata"} == contents(full).keys()


@pytest.mark.parametrize("name", [*ARRAYS, *TEXTS, "metadata"])
def test_an_array_is_missing(tmp_path, full, name):
    arrays = contents(full)
    del arrays[name]
    np.savez(tmp_path / "model.npz", **arrays)
    refused(tmp_path / "model.npz", f"{name} is missing")


def test_an_array_is_not_known(tmp_path, full):
    """A file must not replace a method of the model, nor anything else."""
    np.savez(tmp_path / "model.npz", transform=np.ones(3), **contents(full))
    refused(tmp_path / "model.npz", "'transform' is not known")


CHANGES = {
    "complex": lambda a: a + 1j,
    "text": lambda a: a.astype(str),
    "integers": lambda a: np.ones(a.shape, int),
    "dates": lambda a: np.zeros(a.shape, "M8[s]"),
    "half": lambda a: a.astype(np.float16),
    "no dimension": lambda a: np.float64(3),
    "a dimension more": lambda a: a[None],
    "an entry more": lambda a: np.concatenate([a, a[:1]]),
    "an entry less": lambda a: a[:-1],
    "empty": lambda a: a[:0],
    "NaN": lambda a: a * np.nan,
    "infinity": lambda a: a + np.inf,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_cannot_be(tmp_path, full, name, change):
    arrays = contents(full)
    np.savez(tmp_path / "model.npz", **arrays | {name: CHANGES[change](arrays[name])})
    refused(tmp_path / "model.npz", f"{name} (has the shape|cannot hold)")


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, -1.0) for name in ARRAYS if name not in ("components_", "mean_")]
    + [("scale_", 0.0), ("angles", 1.5), ("allele_frequencies_", 1.5)],
)
def test_numbers_that_are_too_small_or_too_large(tmp_path, full, name, value):
    arrays = contents(full)
    arrays[name][0] = value
    np.savez(tmp_path / "model.npz", **arrays)
    refused(tmp_path / "model.npz", f"{name} cannot hold")


@pytest.mark.parametrize("name", TEXTS)
def test_names_are_text(tmp_path, full, name):
    np.savez(tmp_path / "model.npz", **contents(full) | {name: np.arange(9.0)})
    refused(tmp_path / "model.npz", f"{name} cannot hold")


def test_alleles_come_in_pairs(tmp_path, full):
    np.savez(tmp_path / "model.npz", **contents(full) | {"alleles_": np.array(["A"] * 9)})
    refused(tmp_path / "model.npz", "alleles_ cannot hold")


def test_scaled_genotypes_have_frequencies(tmp_path, full):
    arrays = contents(full)
    del arrays["allele_frequencies_"]
    np.savez(tmp_path / "model.npz", **arrays)
    rewrite(tmp_path / "model.npz", lambda metadata: metadata["arrays"].remove("allele_frequencies_"))
    refused(tmp_path / "model.npz", "allele_frequencies_ is missing, but the genotypes were scaled")


def test_the_format_before_genotypes_is_read(saved, X):
    def older(metadata):
        metadata["format"] = 5
        del metadata["attributes"]["genotypes_scaled_"]

    wanted = vrpca.load(saved)
    rewrite(saved, older)
    assert_same(vrpca.load(saved), wanted)
    rewrite(saved, lambda metadata: metadata.update(format=FORMAT))
    refused(saved, "genotypes_scaled_ is missing")


def test_numbers_in_the_other_byte_order(tmp_path, full, X):
    swapped = {name: array.astype(array.dtype.newbyteorder()) for name, array in contents(full).items()}
    np.savez(tmp_path / "model.npz", **swapped)
    assert_same(vrpca.load(tmp_path / "model.npz"), vrpca.load(full))


def entry(*path, value=None):
    """A change of one entry of the metadata. Without a value, the entry vanishes."""

    def change(metadata):
        *way, last = path
        for name in way:
            metadata = metadata[name]
        if value is None:
            del metadata[last]
        else:
            metadata[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((entry(name), f"{name} is missing") for name in ("model", "arrays", "parameters", "attributes", "status")),
        *((entry(name), f"{name} is missing") for name in ("certificate", "history", "format")),
        (entry("attributes", "n_features_in_"), "n_features_in_ is missing"),
        (entry("attributes", "solver_"), "solver_ is missing"),
        (entry("attributes", "transform", value="x"), "'transform' is not known"),
        (entry("attributes", value=[1]), r"\[1\] is there in place of n_features_in_"),
        (entry("attributes", "n_components_", value=3), "has the shape"),
        (entry("attributes", "n_components_", value=[]), r"n_components_ cannot be \[\]"),
        (entry("attributes", "n_features_in_", value=-9), "n_features_in_ cannot be -9"),
        (entry("attributes", "n_samples_", value=0), "n_samples_ cannot be 0"),
        (entry("attributes", "noise_variance_", value=-1.0), "noise_variance_ cannot be -1.0"),
        (entry("attributes", "n_passes_", value=math.nan), "n_passes_ cannot be nan"),
        (entry("attributes", "converged_", value=False), "converged_ is False, but the status is CONVERGED"),
        (entry("attributes", "solver_", value="magic"), "solver_ cannot be 'magic'"),
        (entry("attributes", "genotypes_scaled_", value=1), "genotypes_scaled_ cannot be 1"),
        (entry("attributes", "solver_reason_", value=5), "solver_reason_ cannot be 5"),
        (entry("parameters", "colour", value="red"), "'colour' is not known"),
        (entry("parameters", "tol"), "tol is missing"),
        (entry("parameters", "tol", value="x"), "tol='x' must be a number"),
        (entry("parameters", "center", value=[1]), r"center=\[1\] must be True or False"),
        (entry("parameters", "n_components", value={"a": 1}), "n_components={'a': 1} must be an integer"),
        (entry("parameters", "theory", value={"gap": "x"}), "delta is missing"),
        (entry("parameters", "callback", value="print"), "callback='print' must be a function"),
        (entry("parameters", value=5), "5 is there in place of"),
        (entry("certificate", "suboptimality"), "suboptimality is missing"),
        (entry("certificate", "suboptimality", value=-1), "a certificate cannot be .*-1"),
        (entry("certificate", "suboptimality", value=math.nan), "a certificate cannot be .*nan"),
        (entry("certificate", "kind", value="sworn"), "a certificate cannot be .*sworn"),
        (entry("certificate", "mu", value=[]), r"mu cannot be \[\]"),
        (entry("history", value=True), "history cannot be True"),
        (entry("history", value={}), "history cannot be {}"),
        (entry("history", 0, "bound", value="small"), "bound cannot be 'small'"),
        (entry("history", 0, "colour", value="red"), "'colour' is not known"),
        (entry("status", value="FINE"), "status 'FINE' is not known"),
        (entry("status", value={"a": 1}), "status {'a': 1} is not known"),
        (entry("model", value=["PCA"]), r"model \['PCA'\].* is not known"),
        (entry("model", value="TruncatedSVD"), "is not known"),
        (entry("arrays", value="all"), "'all' is no list of arrays"),
        (entry("arrays", value=["components_"]), "is not known"),
    ],
)
def test_metadata_that_cannot_be(tmp_path, full, change, message):
    path = tmp_path / "model.npz"
    path.write_bytes(full.read_bytes())
    rewrite(path, change)
    refused(path, message)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", "[" * 100_000, "{}"], ids=lambda text: text[:5])
def test_metadata_that_are_no_metadata(tmp_path, full, text):
    np.savez(tmp_path / "model.npz", **contents(full) | {"metadata": np.asarray(text)})
    refused(tmp_path / "model.npz", "")


def test_a_compressed_file_is_not_inflated(tmp_path, full):
    """Two megabytes of it could be two gigabytes of zeros."""
    np.savez_compressed(tmp_path / "model.npz", **contents(full))
    refused(tmp_path / "model.npz", "compressed in a way that is not used for such files")


@pytest.mark.parametrize(("field", "value"), [(6, 1), (8, 99), (4, 199), (14, 7)])
def test_archives_that_cannot_be(tmp_path, full, field, value):
    """Encrypted, compressed in an unknown way, of a later version, with another checksum: of the first member."""
    out = bytearray(full.read_bytes())
    for signature, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        out[out.index(signature) + field + shift] = value
    (tmp_path / "model.npz").write_bytes(out)
    refused(tmp_path / "model.npz", "")


def test_a_header_that_declares_80_gigabytes(tmp_path, full):
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(full) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b"(2, 9)", b"(9999999999, 1)") if name == "components_.npy" else content)
    refused(path, r"needs \d+ bytes, but there are")


def test_what_could_not_be_read_is_not_written(tmp_path, X):
    model = vrpca.PCA(2, random_state=0).fit(X)
    for name, value in (("components_", model.components_ * np.nan), ("n_passes_", -1), ("tol", "x")):
        broken = copy.copy(model)
        setattr(broken, name, value)
        with pytest.raises(DataError, match=rf"This PCA cannot be saved: {name}.*\. Set it right, or fit again"):
            vrpca.save(broken, tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------ decompositions


@pytest.mark.parametrize(
    "make",
    [
        lambda X: vrpca.svd(X, 3, random_state=4),
        lambda X: vrpca.pca(X, 0.8, scale=True, random_state=4),
        lambda X: vrpca.pca(X, 2, compute_u=False, sample_weight=np.arange(80)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_decomposition_comes_back(tmp_path, X, make, dtype):
    found = make(X.astype(dtype))
    vrpca.save(found, tmp_path / "svd.npz")
    again = vrpca.load(tmp_path / "svd.npz")
    assert type(again) is vrpca.Decomposition
    for name, value in vars(found).items():
        if name != "certificate":
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    assert again.Vt.dtype == dtype and again.converged and again.status is found.status
    for name, value in vars(found.certificate).items():
        np.testing.assert_array_equal(getattr(again.certificate, name), value, err_msg=name)


def test_a_damaged_decomposition_is_refused(tmp_path, X):
    path = tmp_path / "svd.npz"
    vrpca.save(vrpca.svd(X, 3), path)
    with np.load(path) as file:
        arrays = dict(file)
    for name, value, message in [
        ("Vt", arrays["Vt"][0], "Vt cannot have the shape"),
        ("U", arrays["U"][:, :2], r"U has the shape \(80, 2\)"),
        ("s", -arrays["s"], "s cannot hold"),
        ("mean", np.zeros(9), "'mean' is not known|mean"),
    ]:
        np.savez(path, **(arrays | {name: value}))
        with pytest.raises(DataError, match=message):
            vrpca.load(path)


def test_a_decomposition_is_not_a_model(tmp_path, X):
    vrpca.save(vrpca.svd(X, 3), tmp_path / "svd.npz")
    with pytest.raises(DataError, match=r"svd.npz holds a Decomposition, not a fitted PCA.*fit one"):
        load_model(tmp_path / "svd.npz")
