"""Model files: what is saved comes back, what is foreign is refused, and no file is ever half-written."""

import json

import numpy as np
import pandas as pd
import pytest

import vrpca
from vrpca.errors import DataError


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
    rewrite(saved, lambda metadata: metadata.update(format=2, vrpca="9.0"))
    with pytest.raises(DataError, match=r"model format 2.*9\.0"):
        vrpca.load(saved)


def test_unknown_model(saved):
    rewrite(saved, lambda metadata: metadata.update(model="NMF"))
    with pytest.raises(DataError):
        vrpca.load(saved)


@pytest.mark.parametrize("name", ["components_", "residuals", "history", "n_features_in_"])
def test_a_file_that_lacks_something(saved, name):
    with np.load(saved) as file:
        arrays = {other: array for other, array in file.items() if other != name}
    np.savez(saved, **arrays)
    rewrite(saved, lambda metadata: metadata.pop(name, None))
    with pytest.raises(DataError, match=f"damaged: {name} is missing"):
        vrpca.load(saved)
