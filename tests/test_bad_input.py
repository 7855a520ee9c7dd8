"""Bad input: one clear error each, that names the cause and the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import ChunkedSource, small_counts
from vrpca import PCA, DataError, OptionError, TruncatedSVD

X = small_counts(30, 6)


def fails(error, message, X, k=2, **options):
    """PCA and pca both raise this, and leave nothing half-fitted behind."""
    weights = options.pop("sample_weight", None)
    with pytest.raises(error, match=message):
        vrpca.pca(X, k, sample_weight=weights, **options)
    model = PCA(k, **options)
    with pytest.raises(error, match=message):
        model.fit(X, sample_weight=weights)
    assert not hasattr(model, "components_")


def attempt(*args, **options):
    """What pca returns, or the error that it raises; the other one is None."""
    try:
        return vrpca.pca(*args, **options), None
    except (DataError, OptionError) as error:
        return None, error


def spoilt(value, place=(7, 3), dtype=np.float64):
    data = X.astype(dtype)
    data[place] = value
    return data


@pytest.mark.parametrize(
    "form", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array, lambda Y: ChunkedSource(Y, 4)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_not_finite(value, name, dtype, form):
    """The place is named; the check comes before any factorisation (numpy issue 32591)."""
    fails(DataError, rf"contains {name} \(row 7, column 3\).*Impute or drop", form(spoilt(value, dtype=dtype)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_with_holes(frame):
    columns = {f"c{j}": X[:, j].copy() for j in range(6)}
    columns["c3"][7] = np.nan
    fails(DataError, r"contains NaN \(row 7, column 3\).*Impute or drop", frame(columns))


def test_not_finite_under_a_weight_of_zero_is_still_an_error_or_ignored():
    """A row of weight zero does not count; what it holds must not leak into the answer as NaN."""
    weights = np.ones(30)
    weights[7] = 0
    found, error = attempt(spoilt(np.nan), 2, sample_weight=weights)
    assert ("NaN" in str(error)) if error else np.isfinite(found.s).all() and np.isfinite(found.Vt).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_not_finite_in_transform(value, form):
    for model in (PCA(2).fit(X), TruncatedSVD(2).fit(X)):
        with pytest.raises(DataError, match=r"(NaN|infinity) \(row 7, column 3\).*Impute or drop"):
            model.transform(form(spoilt(value)))


def test_complex():
    """scikit-learn issue 30736."""
    message = "Complex data not supported: split X into its real and imaginary parts"
    fails(DataError, message, X + 1j)
    fails(DataError, message, sp.csr_array(X + 1j))


def test_objects_and_text():
    fails(DataError, "not numbers.*Convert or drop", np.array([["a", "b"], ["c", "d"]], dtype=object))
    fails(DataError, "only numbers can be decomposed. Convert or drop text", np.array([["a", "b"], ["c", "d"]]))
    fails(DataError, "only numbers|not numbers", [["1", "x"], ["2", "y"]])
    fails(TypeError, "not numbers.*Convert or drop", np.array([[{}, 1], [2, 3]], dtype=object))
    fails(DataError, "only numbers", np.array([["2020-01-01"] * 2] * 3, dtype="datetime64[D]"))


def test_an_object_array_of_numbers_is_taken():
    np.testing.assert_allclose(vrpca.pca(X.astype(object), 2).s, vrpca.pca(X, 2).s)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_with_a_text_column_is_named(frame):
    table = frame({"a": [1.0, 2.0, 4.0], "city": ["x", "y", "z"], "b": [3, 4, 4]})
    fails(DataError, "Column 'city'.*only numbers can be decomposed. Drop or encode it", table)


def test_ragged_rows():
    fails(DataError, "could not be read as a matrix.*rows of equal length", [[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(shape):
    fails(DataError, r"Found array with 0 (sample|feature)\(s\).*minimum of 1", np.zeros(shape))
    fails(DataError, r"Found array with 0 (sample|feature)\(s\).*minimum of 1", sp.csr_array(shape))


@pytest.mark.parametrize("data", [np.arange(5.0), np.zeros((2, 3, 4)), np.float64(3.0)])
def test_not_a_matrix(data):
    fails(DataError, r"Expected a 2D array.*Reshape your data", data)


def test_neither_path_nor_nothing_is_read_as_numbers():
    for data in (None, object(), {1, 2}):
        fails((DataError, TypeError), "X|2D", data)


def test_one_row_with_centring():
    fails(DataError, "n_samples = 1 sample is not defined: centring one row leaves nothing", X[:1], k=1)
    weights = np.zeros(30)
    weights[4] = 2
    fails(DataError, "n_samples = 1 sample", X, k=1, sample_weight=weights)


def test_one_row_without_centring():
    found = vrpca.svd(X[:1], 1)
    np.testing.assert_allclose(found.s, np.linalg.norm(X[0]))
    np.testing.assert_allclose(np.abs(found.Vt[0]), np.abs(X[0]) / np.linalg.norm(X[0]), atol=1e-12)


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, r"n_components=0 must be between 1 and min\(n_samples, n_features\)=6"),
        (-1, r"n_components=-1 must be between 1 and min\(n_samples, n_features\)=6"),
        (7, r"n_components=7 must be between 1 and min\(n_samples, n_features\)=6"),
        (True, "n_components=True must be an integer, a fraction"),
        (2.5, "n_components=2.5 must be an integer, a fraction"),
        (1.0, "n_components=1.0 must be an integer, a fraction"),
        (0.0, "n_components=0.0 must be an integer, a fraction"),
        (float("nan"), "n_components=nan must be an integer, a fraction"),
        ("3", "n_components='3' must be an integer, a fraction"),
        ("mle", "n_components='mle' must be an integer, a fraction"),
        ([2], r"n_components=\[2\] must be an integer, a fraction"),
    ],
)
def test_k(k, message):
    fails(OptionError, message, X, k=k)


@pytest.mark.parametrize("k", [0, 7, True, 2.5, 0.5, "3", None])
def test_k_of_a_plain_svd(k):
    with pytest.raises(OptionError, match=r"must be an integer|must be between"):
        vrpca.svd(X, k)
    with pytest.raises(OptionError, match=r"must be an integer|must be between"):
        TruncatedSVD(k).fit(X)


def test_numpy_integers_are_integers():
    assert vrpca.svd(X, np.int64(2)).s.shape == (2,)
    assert PCA(np.int32(2)).fit(X).n_components_ == 2
    assert PCA(np.float32(0.5)).fit(X).n_components_ >= 1


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, 1e10, -1e-200, 1e-310])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_constant_data(value, form):
    """scanpy issue 264: NaN ratios on constant data; here nothing is returned at all."""
    fails(DataError, "no variance: all rows are equal. Remove constant columns", form(np.full((20, 4), value)))
    rows = np.tile([1.0, 0.1, 1 / 3, -7.7], (20, 1))
    fails(DataError, "no variance: all rows are equal", form(rows))
    fails(DataError, "no variance", form(rows.astype(np.float32)))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_all_zero_without_centring(form):
    with pytest.raises(DataError, match="zero everywhere: there is nothing to decompose"):
        vrpca.svd(form(np.zeros((5, 4))), 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(30), "finite numbers that are not negative"),
        (np.append(np.ones(29), -1e-9), "finite numbers that are not negative"),
        (np.append(np.ones(29), np.nan), "finite numbers that are not negative"),
        (np.append(np.ones(29), np.inf), "finite numbers that are not negative"),
        (np.ones(29), r"sample_weight.shape == \(29,\), expected \(30,\): one weight per row"),
        (np.ones((30, 1)), r"sample_weight.shape == \(30, 1\), expected \(30,\): one weight per row"),
        (np.zeros(30), "zero everywhere: at least one row must count"),
        (["a"] * 30, "weight"),
        (np.ones(30) * 1j, "weight"),
    ],
)
def test_weights(weights, message):
    fails((OptionError, DataError, TypeError), message, X, sample_weight=weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "lanczos"}, "solver='lanczos' is not known: use 'auto', 'vr'"),
        ({"solver": None}, "solver=None is not known: use 'auto'"),
        ({"sampling": "rows"}, "sampling='rows' is not known: use 'uniform' or 'norm'"),
        ({"control": "none"}, "control='none' is not known: use 'difference', 'projection' or None"),
        ({"tol": -1e-3}, "tol=-0.001 must be a number, at least 0"),
        ({"tol": float("nan")}, "tol=nan must be a number, at least 0"),
        ({"tol": "1e-3"}, "tol='1e-3' must be a number, at least 0"),
        ({"tol": True}, "tol=True must be a number"),
        ({"max_passes": 0}, "max_passes=0 must be a number, at least"),
        ({"max_passes": float("nan")}, "max_passes=nan must be a number, at least"),
        ({"max_passes": None}, "max_passes=None must be a number, at least"),
        ({"max_seconds": -1}, "max_seconds=-1 must be"),
        ({"max_seconds": "5"}, "max_seconds='5' must be"),
        ({"max_seconds": float("nan")}, "max_seconds=nan must be"),
        ({"restarts": 0}, "restarts=0 must be an integer, at least 1"),
        ({"restarts": 1.5}, "restarts=1.5 must be an integer, at least 1"),
        ({"oversample": -1}, "oversample=-1 must be an integer, at least 0"),
        ({"oversample": 2.5}, "oversample=2.5 must be an integer, at least 0"),
        ({"n_threads": 0}, "n_threads=0 must be an integer, at least 1"),
        ({"solver": "vr", "epoch_length": 0}, "epoch_length=0 must be a positive integer or None"),
        ({"solver": "vr", "epoch_length": 2.5}, "epoch_length=2.5 must be a positive integer or None"),
        ({"solver": "vr", "epoch_length": True}, "epoch_length=True must be a positive integer or None"),
        ({"solver": "vr", "step": 0}, "step=0 must be a positive number, or one of auto, paper, theory"),
        ({"solver": "vr", "step": -1.0}, "step=-1.0 must be a positive number, or one of auto, paper, theory"),
        ({"solver": "vr", "step": float("inf")}, "step=inf must be a positive number"),
        ({"solver": "vr", "step": True}, "step=True must be a positive number"),
        ({"solver": "vr", "step": "long"}, "step='long' is not known: give a positive number, or one of auto"),
        ({"solver": "oja", "step": "theory", "theory": vrpca.Theory(gap=1.0)}, "use solver='vr' or 'hybrid'"),
        ({"solver": "power", "deflate": True}, "deflate=True goes with solver='vr', not with 'power'"),
        ({"callback": 3}, "callback=3 must be"),
        ({"n_threads": 10**30}, f"n_threads={10**30} must be an integer, at least 1 and at most 8192"),
        ({"random_state": "seed"}, r"random_state='seed' must be a seed \(an integer, at least 0\)"),
        ({"random_state": -1}, r"random_state=-1 must be a seed \(an integer, at least 0\)"),
        ({"random_state": 1.5}, r"random_state=1.5 must be a seed"),
        ({"theory": 0.1}, "theory=0.1 must be a vrpca.Theory or None"),
        ({"solver": np.array(["vr", "oja"])}, r"solver=array\(\['vr', 'oja'\].*is not known: use 'auto'"),
        ({"cost": ["time"]}, r"cost=\['time'\] is not known: use 'auto'"),
    ],
    ids=str,
)
def test_options(options, message):
    fails((OptionError, ValueError), message, X, **options)


@pytest.mark.parametrize(
    "value", ["yes", None, 2, 0.5, [], {}, 1j, ..., np.zeros((2, 2)), np.timedelta64(1, "s")], ids=str
)
@pytest.mark.parametrize("name", ["center", "scale", "deflate", "whiten", "warm_start", "compute_u"])
def test_flags(name, value):
    """Everything is true or false in Python, but it was a mistake: of the order of the arguments, say."""
    models = [estimator(2, **{name: value}) for estimator in (PCA, TruncatedSVD) if name in estimator().get_params()]
    calls = [lambda model=model: model.fit(X) for model in models]
    if name not in ("whiten", "warm_start"):
        calls += [lambda function=function: function(X, 2, **{name: value}) for function in (vrpca.pca, vrpca.svd)]
    assert calls
    for call in calls:
        with pytest.raises(OptionError, match=f"{name}=.* must be True or False"):
            call()


@pytest.mark.parametrize("value", ["yes", None, 0.5, np.zeros(2)], ids=str)
def test_verbose(value):
    fails(OptionError, "verbose=.* must be True or False", X, verbose=value)


@pytest.mark.parametrize("value", [True, 1, np.True_, np.int8(1)])
def test_flags_that_are_meant(value):
    found = vrpca.pca(X, 2, center=value, scale=value, compute_u=value, random_state=0)
    np.testing.assert_array_equal(found.s, vrpca.pca(X, 2, scale=True, random_state=0).s)


@pytest.mark.parametrize(
    "name",
    ["tol", "max_passes", "max_seconds", "oversample", "epoch_length", "restarts", "n_threads", "step", "random_state"],
)
def test_a_duration_is_no_number(name):
    """NumPy counts durations among the integers."""
    fails(OptionError, f"{name}=.*timedelta64.* must be", X, **{name: np.timedelta64(5, "s")})


def test_a_duration_is_no_number_of_components():
    fails(OptionError, "timedelta64.* must be an integer", X, k=np.timedelta64(2, "s"))
    with pytest.raises(OptionError, match=r"k=.*timedelta64.* must be an integer"):
        vrpca.svd(X, np.timedelta64(2, "s"))


def test_small_types_of_numbers_do_not_overflow():
    found = vrpca.pca(X, 2, oversample=np.int8(3), tol=np.float32(1e-6), solver="power", random_state=np.int8(0))
    assert found.converged  # and no warning


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("text", "finite rows of length 6, got 'text'"),
        (np.ones((2, 6)) * 1j, "finite rows of length 6, got array"),
        (object(), "finite rows of length 6, got <object"),
        ([[1.0, 2.0], [3.0]], r"finite rows of length 6, got \[\[1.0, 2.0\], \[3.0\]\]"),
        (np.ones((2, 5)), r"finite rows of length 6, got numbers of shape \(2, 5\)"),
        (np.ones((0, 6)), r"finite rows of length 6, got numbers of shape \(0, 6\)"),
        (np.ones((1, 2, 6)), r"finite rows of length 6, got numbers of shape \(1, 2, 6\)"),
        (np.full((2, 6), np.nan), "NaN or infinity is among them"),
    ],
    ids=["text", "complex", "object", "ragged", "short", "empty", "cube", "nan"],
)
def test_start(start, message):
    for function in (vrpca.pca, vrpca.svd):
        with pytest.raises(OptionError, match=message):
            function(X, 2, start=start)


def test_a_start_that_is_too_large_for_the_data():
    with pytest.raises(OptionError, match="NaN or infinity is among them"):
        vrpca.pca(X.astype(np.float32), 2, start=np.full((1, 6), 1e300))


def test_long_values_are_shortened_in_messages():
    with pytest.raises(OptionError) as caught:
        vrpca.pca(X, 2, tol=np.zeros((100, 100)))
    assert len(str(caught.value)) < 150 and "\n" not in str(caught.value)


def test_options_of_a_solver_that_is_not_taken_are_checked_too():
    """step='long' with solver='gram' is a mistake even though gram takes no steps."""
    fails(OptionError, "step='long' is not known", X, solver="gram", step="long")


def test_deflation_with_auto_takes_vr_or_says_what_to_pass():
    """solver='auto' is not 'gram' to the user: the message must not blame a choice that was not theirs."""
    found, error = attempt(X, 2, deflate=True, random_state=0, max_passes=1000)
    assert ("'vr'" in str(error) and "'gram'" not in str(error)) if error else found.solver == "vr"


def test_options_are_checked_before_the_data_are_read():
    """Design, section 8: before long work where that is possible."""
    for options in (
        {"sampling": "rows"},
        {"control": "x"},
        {"step": "long", "solver": "vr"},
        {"solver": "vr", "epoch_length": 0},
        {"random_state": -1},
        {"center": "yes"},
    ):
        source = ChunkedSource(X, 5)
        with pytest.raises(OptionError):
            vrpca.pca(source, 2, **options)
        assert source.handed_out == 0, options


def test_an_unknown_option():
    with pytest.raises(TypeError, match=r"Unknown option 'iterations'; the options are solver, tol"):
        vrpca.svd(X, 2, iterations=7)
    with pytest.raises(TypeError, match="iterations"):
        PCA(2, iterations=7)


def test_another_number_of_columns_in_transform():
    for model in (PCA(2).fit(X), TruncatedSVD(2).fit(X)):
        for data in (X[:, :5], sp.csr_array(X[:, :5]), np.hstack([X, X]), ChunkedSource(X[:, :5])):
            with pytest.raises(ValueError, match=r"has \d+ features, but.*6"):
                model.transform(data)
        with pytest.raises(ValueError, match="2D"):
            model.transform(X[0])


def test_another_number_of_scores_in_inverse_transform():
    with pytest.raises(ValueError, match="2"):
        PCA(2).fit(X).inverse_transform(np.ones((4, 3)))


def test_a_failed_fit_leaves_the_old_one():
    model = PCA(2).fit(X)
    before = model.components_.copy()
    with pytest.raises(DataError):
        model.fit(spoilt(np.nan))
    np.testing.assert_array_equal(model.components_, before)
    assert model.transform(X).shape == (30, 2)


@pytest.mark.parametrize("named", [False, True])
def test_a_failed_fit_of_other_columns_leaves_the_old_one(named):
    """The number and the names of the columns belong to the model, too."""
    table = pd.DataFrame(X, columns=list("abcdef")) if named else X
    other = pd.DataFrame(spoilt(np.nan)[:, :4], columns=list("wxyz")) if named else spoilt(np.nan)[:, :4]
    model = PCA(2).fit(table)
    expected = model.transform(table)
    with pytest.raises(DataError):
        model.fit(other)
    np.testing.assert_array_equal(model.transform(table), expected)
    assert model.n_features_in_ == 6 and hasattr(model, "feature_names_in_") == named
    unfitted = PCA(2)
    with pytest.raises(DataError):
        unfitted.fit(other)
    assert not hasattr(unfitted, "n_features_in_") and not hasattr(unfitted, "feature_names_in_")


def test_errors_are_value_errors():
    assert issubclass(DataError, ValueError) and issubclass(OptionError, ValueError)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e6), (np.float64, 2e13)])
def test_sparse_rows_that_centring_would_turn_into_rounding(dtype, size):
    """Means that are larger than the deviations by almost all digits are refused, not turned into noise."""
    X = sp.csr_matrix((size + np.random.default_rng(0).integers(0, 8, (200, 5))).astype(dtype))
    with pytest.raises(DataError, match=r"means of X's columns .* (pass X as float64|pass X as a dense array)"):
        vrpca.pca(X, 2, solver="krylov")
    found, truth = PCA(2, solver="gram", tol=0.01).fit(X), PCA(2).fit(X.toarray().astype(float))
    np.testing.assert_allclose(found.explained_variance_, truth.explained_variance_, rtol=1e-3)
