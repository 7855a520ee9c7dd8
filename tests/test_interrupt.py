"""Ctrl-C: the best answer so far is kept and handed on, wherever it strikes, and the caller's loop ends."""

from __future__ import annotations

import pickle
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca
from solvers.problems import assert_orthonormal, suboptimality, transformed, with_eigenvalues
from vrpca import PCA, Interrupted, Status, TruncatedSVD
from vrpca.data.view import View
from vrpca.plan import pass_seconds
from vrpca.solvers.lanczos import Lanczos
from vrpca.solvers.outside import RandomSearch

DENSE = with_eigenvalues(400, 60, 0.95 ** np.arange(60))
MANY_ROWS = with_eigenvalues(4000, 60, 0.95 ** np.arange(60))  # enough for a start from a sample
SPARSE = sp.random_array((500, 300), density=0.03, rng=np.random.default_rng(0), format="csr")

CASES = {
    "vr": (DENSE, 1, {"solver": "vr"}),
    "vr, block": (DENSE, 3, {"solver": "vr"}),
    "vr, difference": (DENSE, 3, {"solver": "vr", "control": "difference"}),
    "vr, sparse": (SPARSE, 2, {"solver": "vr"}),
    "deflation": (DENSE, 2, {"solver": "vr", "deflate": True}),
    "oja": (DENSE, 2, {"solver": "oja"}),
    "power": (DENSE, 2, {"solver": "power"}),
    "hybrid": (DENSE, 2, {"solver": "hybrid"}),
    "krylov": (DENSE, 2, {"solver": "krylov", "oversample": 1}),
    "accelerated, sampled": (MANY_ROWS, 2, {"solver": "accelerated", "oversample": 1}),
    "accelerated, streamed": (DENSE, 1, {"solver": "accelerated", "cost": "passes", "oversample": 1}),
    "accelerated, narrow": (SPARSE, 2, {"solver": "accelerated", "oversample": 1}),
    "gram": (DENSE.astype(np.float32), 2, {"solver": "gram"}),
}


@contextmanager
def interrupted():
    """A block that Ctrl-C ends, with an answer. Without one it would end pytest, were it not caught here."""
    with pytest.raises(KeyboardInterrupt) as caught:
        yield caught
    assert isinstance(caught.value, Interrupted), "the answer was lost"


def svd(name, **more):
    X, k, options = CASES[name]
    return vrpca.svd(X, k, **{"tol": 1e-15, "random_state": 0, "max_passes": 40, "n_threads": 1, **options, **more})


def check(found, X, k, explains=None):
    """An answer that was interrupted: orthonormal, as good as the best record said, with a certificate that holds."""
    assert found.status is Status.INTERRUPTED and not found.converged
    Z = transformed(X)
    eps = float(np.finfo(found.Vt.dtype).eps)
    assert found.Vt.shape == (k, X.shape[1]) and found.s.shape == (k,)
    assert_orthonormal(found.Vt, 100 * eps)
    explained = np.linalg.norm(Z @ found.Vt.T.astype(float)) ** 2 / np.linalg.norm(Z) ** 2
    best = max(record.objective for record in found.history)
    assert explained >= (best if explains is None else min(best, explains)) - 100 * eps
    assert suboptimality(Z, found.Vt) <= found.certificate.suboptimality + 100 * eps
    if found.U is not None:
        np.testing.assert_allclose(found.U * found.s, Z @ found.Vt.T, atol=1e3 * eps * np.linalg.norm(Z))


def check_case(found, name):
    X, k, _ = CASES[name]
    check(found, X, len(found.s) if name == "deflation" else k)  # which has only begun some of its vectors
    assert 1 <= len(found.s) <= k


@pytest.fixture(autouse=True)
def two_readings_of_gram(monkeypatch):
    """Single precision at first, whatever the tolerance: there is a step that can be interrupted then."""
    monkeypatch.setattr("vrpca.solvers.gram.SINGLE", 0.0)


def at_epoch(epoch):
    """A callback during which Ctrl-C is pressed."""

    def interrupt(record):
        if record.epoch == epoch:
            raise KeyboardInterrupt

    return interrupt


class Counted:
    """A method that counts its calls, and is interrupted at some of them."""

    def __init__(self, method, *interrupted):
        self.method, self.interrupted, self.calls = method, interrupted, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.calls in self.interrupted:
            raise KeyboardInterrupt
        return self.method(*args, **kwargs)


def count(monkeypatch, owner, name, *interrupted):
    """Count the calls of ``owner.name``, and interrupt it at those with these numbers."""
    counted = Counted(getattr(owner, name), *interrupted)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: counted(*args, **kwargs))
    return counted


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch):
    """`gram` has steps to be interrupted in, as it has with more data."""
    monkeypatch.setattr("vrpca.data.gram.SMALL_WORK", 0)


# ----------------------------------------------------------------------------------------------------- where it strikes


@pytest.mark.parametrize("epoch", [0, 1, 3])
@pytest.mark.parametrize("name", CASES)
def test_in_a_callback(name, epoch):
    epoch = min(epoch, 1) if name == "gram" else epoch  # which has one step
    with interrupted() as caught:
        svd(name, callback=at_epoch(epoch))
    found = caught.value.decomposition
    assert len(found.history) == epoch + 1
    check_case(found, name)
    assert found.U is not None


@pytest.mark.parametrize("name", [name for name in CASES if name != "gram"])
def test_in_a_product(name, monkeypatch):
    """The n-th product of the whole run, for every n: before there is a state nothing can be kept, later all of it."""
    options = {"compute_u": False, "max_passes": 15}
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        products = count(patch, View, "product")
        svd(name, **options)
    kept = 0
    for number in range(1, products.calls + 1):
        records = []
        with monkeypatch.context() as patch:
            count(patch, View, "product", number)
            with pytest.raises(KeyboardInterrupt) as caught:
                svd(name, callback=records.append, **options)
        assert isinstance(caught.value, Interrupted) == bool(records)
        if records:
            kept += 1
            assert caught.value.decomposition.history == records
            check_case(caught.value.decomposition, name)
    assert kept >= 3


def test_in_the_second_reading_of_gram(monkeypatch):
    """The first A comes with the first pass; the second one, in double precision, takes a pass of its own."""
    with monkeypatch.context() as patch:
        readings = count(patch, View, "matrix", 1)
        with interrupted() as caught:
            svd("gram")
    assert readings.calls == 1
    check(caught.value.decomposition, *CASES["gram"][:2])


@pytest.mark.parametrize("solver", ["accelerated", "krylov"])
def test_just_after_a_restart_of_the_search_space(solver, monkeypatch):
    """The restart has replaced the vectors that the last state was made of."""
    X = SPARSE
    options = {"solver": solver, "tol": 1e-15, "random_state": 0, "oversample": 0, "n_threads": 1, "max_passes": 60}
    restarts = []
    product = View.product

    def struck(view, W, P=None, out=None):
        if restarts:
            raise KeyboardInterrupt
        return product(view, W, P, out)

    owner = Lanczos if solver == "accelerated" else vrpca.solvers.search_space.SearchSpace
    shrink = owner.shrink

    def watched(space, *args):
        size = space.size
        shrink(space, *args)
        if space.size < size:
            restarts.append(size)

    monkeypatch.setattr(View, "product", struck)
    monkeypatch.setattr(owner, "shrink", watched)
    with interrupted() as caught:
        vrpca.svd(X, 1, compute_u=False, **options)
    found = caught.value.decomposition
    assert len(restarts) == 1 and len(found.history) > 5
    check(found, X, 1)


@contextmanager
def struck_at(number, counts):
    """Press Ctrl-C at the n-th line of solvers and of the loop; append the number of lines so far to `counts`."""
    package = Path(vrpca.__file__).parent
    watched = (str(package / "solvers"), str(package / "run.py"), str(package / "linalg.py"))
    lines = 0

    def line(frame, event, argument):
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == number:
                raise KeyboardInterrupt
        return line

    def call(frame, event, argument):
        return line if frame.f_code.co_filename.startswith(watched) else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield lambda record: counts.append(lines)
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("name", CASES)
def test_at_any_line_of_a_step(name):
    """Ctrl-C may strike between any two lines. Between the first and the last record an answer is always kept."""
    counts, options = [], {"max_passes": 12, "compute_u": False}
    with struck_at(0, counts) as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svd(name, callback=watch, **options)
    first, last = counts[0], counts[-1]
    assert last > first + 30
    for number in np.unique(np.linspace(first + 1, last, 25).astype(int)):
        with interrupted() as caught, struck_at(number, []) as watch:
            svd(name, callback=watch, **options)
        check_case(caught.value.decomposition, name)


def test_at_every_line_of_a_restart(monkeypatch):
    """A restart of block Lanczos overwrites the vectors that the last state is combined of."""
    name, counts, options = "accelerated, narrow", [], {"max_passes": 12, "compute_u": False}
    with struck_at(0, counts) as note, monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        shrink = Lanczos.shrink
        patch.setattr(Lanczos, "shrink", lambda *arguments: [note(None), shrink(*arguments), note(None)])
        svd(name, **options)
    first, last = counts[:2]
    assert last > first + 8
    for number in range(first - 3, last + 4):
        with interrupted() as caught, struck_at(number, []):
            svd(name, **options)
        check_case(caught.value.decomposition, name)


# ------------------------------------------------------------------------------------------------ what it must not lose


@pytest.mark.parametrize("solver", ["vr", "krylov", "accelerated"])
@pytest.mark.parametrize("where", ["start", "record"])
def test_in_a_later_restart_the_best_run_is_kept(solver, where, monkeypatch):
    """The second run is far behind the first one when it is interrupted."""
    records = []

    def watch(record):
        records.append(record)
        if where == "record" and sum(each.epoch == 0 for each in records) == 2:
            raise KeyboardInterrupt
        if where == "start" and record.bound <= 1e-6:  # the first run is done: the next product is the second's start
            count(monkeypatch, View, "product", 1)

    options = {"solver": solver, "restarts": 3, "tol": 1e-6, "random_state": 0, "callback": watch, "compute_u": False}
    with interrupted() as caught:
        vrpca.svd(DENSE, 2, max_passes=600, **options)
    found = caught.value.decomposition
    check(found, DENSE, 2)
    assert found.certificate.suboptimality <= 1e-6
    if where == "record":
        assert records[-1].bound > 1e-6


def test_while_a_fraction_is_looked_for(monkeypatch):
    """More components are being tried: those that were found before are kept, if the new ones have not begun."""
    X = with_eigenvalues(300, 70, 0.96 ** np.arange(70))
    records = []
    options = {"solver": "vr", "tol": 1e-2, "random_state": 0, "compute_u": False, "center": False, "max_passes": 1000}
    vrpca.pca(X, 0.9, callback=records.append, **options)
    starts = [number for number, record in enumerate(records) if record.epoch == 0]
    assert len(starts) >= 3
    for number in {*starts[1:], starts[-1] + 1, len(records) - 1}:
        seen = []

        def strike(record, seen=seen, number=number):
            seen.append(record)
            if len(seen) == number + 1:
                raise KeyboardInterrupt

        with interrupted() as caught:
            vrpca.pca(X, 0.9, callback=strike, **options)
        found = caught.value.decomposition
        check(found, X, len(found.s), explains=0.9)  # no more components than it takes
    seen = []

    def strike_at_the_next_product(record):
        seen.append(record)
        if len(seen) == starts[-1]:
            count(monkeypatch, View, "product", 1)

    with interrupted() as caught:
        vrpca.pca(X, 0.9, callback=strike_at_the_next_product, **options)
    found = caught.value.decomposition
    check(found, X, len(found.s))
    assert len(found.s) == 8 * 2 ** (len(starts) - 2), "the components of the last k but one"


def test_a_converged_fraction_that_is_interrupted_is_interrupted():
    """Ctrl-C at the very last record: it must not be forgotten because there is nothing left to do."""
    X = with_eigenvalues(300, 40, 0.6 ** np.arange(40))
    records = []
    vrpca.pca(X, 0.9, solver="vr", random_state=0, callback=records.append)
    with interrupted():
        vrpca.pca(X, 0.9, solver="vr", random_state=0, callback=at_epoch(records[-1].epoch))


@pytest.mark.parametrize("number", [1, 2, 5])
def test_while_the_certificate_is_proven(number, monkeypatch):
    steps = count(monkeypatch, RandomSearch, "step", number)
    options = {"solver": "krylov", "certificate": "probabilistic", "tol": 1e-7, "random_state": 0, "compute_u": False}
    with interrupted() as caught:
        vrpca.svd(DENSE, 3, **options)
    assert steps.calls == number
    check(caught.value.decomposition, DENSE, 3)
    assert suboptimality(DENSE, caught.value.decomposition.Vt) <= 1e-7


def missed(**options):
    """A start without the leading direction: only the search outside the first answer finds it."""
    X = np.diag(np.r_[5.0, 3.0, 2.0, np.full(37, 0.1)])
    options = {"solver": "power", "oversample": 0, "tol": 1e-6, "random_state": 0, "max_passes": 400, **options}
    return X, lambda: vrpca.svd(X, 2, start=np.eye(40)[1:3], certificate="probabilistic", **options)


def test_in_the_run_that_takes_in_what_was_missed(monkeypatch):
    """It ends there and then: no other search, and the better answer."""
    runs = []

    def strike(record):
        runs.append(record.epoch)
        if runs.count(0) == 2:
            searches.calls = 0
            raise KeyboardInterrupt

    searches = count(monkeypatch, RandomSearch, "step")
    X, call = missed(callback=strike)
    with interrupted() as caught:
        call()
    check(caught.value.decomposition, X, 2)
    assert searches.calls == 0
    np.testing.assert_allclose(caught.value.decomposition.s, [5, 3], rtol=1e-2)


def test_in_the_second_search_the_second_answer_is_kept(monkeypatch):
    runs = []

    def strike(record):
        runs.append(record.epoch)
        if runs.count(0) == 2:
            count(monkeypatch, RandomSearch, "step", 1)

    X, call = missed(callback=strike)
    with interrupted() as caught:
        call()
    check(caught.value.decomposition, X, 2)
    np.testing.assert_allclose(caught.value.decomposition.s, [5, 3], rtol=1e-5)


def test_while_auto_changes_its_mind(monkeypatch):
    """`accelerated` was given up, and the start of `gram` is interrupted: the answer of `accelerated` is there."""
    flat = np.random.default_rng(0).standard_normal((900, 300))
    monkeypatch.setattr("vrpca.plan.choose", lambda task: ("accelerated", "for the test"))
    monkeypatch.setattr("vrpca.plan.gram_seconds", lambda task: 2 * pass_seconds(task))
    count(monkeypatch, View, "matrix", 1)
    with interrupted() as caught:
        vrpca.svd(flat, 2, tol=1e-10, random_state=0)
    found = caught.value.decomposition
    assert found.solver == "accelerated"
    check(found, flat, 2)


@pytest.mark.parametrize("transpose", [False, True])
def test_in_the_last_reading(transpose, monkeypatch):
    """Left vectors take one: without them the answer stands. On the other side of X they are read all the same."""
    X = np.asfortranarray(DENSE) if transpose else DENSE
    options = {"solver": "krylov", "tol": 1e-6, "random_state": 0}
    with monkeypatch.context() as patch:
        last = count(patch, View, "product")
        vrpca.svd(X, 2, **options)
    count(monkeypatch, View, "product", last.calls)
    with pytest.raises(Interrupted) as caught:
        vrpca.svd(X, 2, **options)
    found = caught.value.decomposition
    assert (found.U is None) != transpose
    check(replace(found, U=None), X, 2)
    if found.U is not None:
        np.testing.assert_allclose(found.Vt.T * found.s, X.T @ found.U, atol=1e-12 * np.linalg.norm(X))


def test_pressed_twice(monkeypatch):
    """The second time, the left vectors are given up as well."""
    with monkeypatch.context() as patch:
        all_of_them = count(patch, View, "product")
        with interrupted():
            svd("krylov", callback=at_epoch(2))
    count(monkeypatch, View, "product", all_of_them.calls)
    with interrupted() as caught:
        svd("krylov", callback=at_epoch(2))
    assert caught.value.decomposition.U is None
    check(caught.value.decomposition, *CASES["krylov"][:2])


# --------------------------------------------------------------------------------------------------- what a caller sees


@pytest.mark.parametrize("estimator", [PCA, TruncatedSVD])
@pytest.mark.parametrize("solver", ["vr", "krylov", "accelerated", "oja"])
def test_an_estimator_is_fitted_with_the_best_answer(estimator, solver):
    model = estimator(2, solver=solver, tol=1e-15, random_state=0, callback=at_epoch(3))
    with pytest.raises(KeyboardInterrupt):
        model.fit(DENSE)
    assert model.status_ is Status.INTERRUPTED and model.converged_ is False
    assert len(model.history_) == 4 and model.solver_ == solver
    assert_orthonormal(model.components_, 1e-12)
    Z = transformed(DENSE, center=estimator is PCA)
    explained = np.linalg.norm(Z @ model.components_.T) ** 2 / np.linalg.norm(Z) ** 2
    assert explained >= max(record.objective for record in model.history_) - 1e-13
    found = (model.singular_values_**2).sum() / np.linalg.norm(Z) ** 2
    np.testing.assert_allclose(found, explained, rtol=1e-10)
    assert model.transform(DENSE).shape == (400, 2)


@pytest.mark.parametrize("call", ["fit", "fit_transform", "svd", "pca"])
def test_a_loop_of_fits_ends_at_the_first_one(call):
    begun = []

    def one(seed):
        begun.append(seed)
        options = {"solver": "vr", "tol": 1e-12, "random_state": seed, "callback": at_epoch(2)}
        if call in ("svd", "pca"):
            return getattr(vrpca, call)(DENSE, 2, **options)
        return getattr(PCA(2, **options), call)(DENSE)

    def many():
        for seed in range(5):
            one(seed)

    with interrupted():
        many()
    assert begun == [0]


def test_code_that_catches_exceptions_does_not_catch_it():
    assert issubclass(Interrupted, KeyboardInterrupt) and not issubclass(Interrupted, Exception)


def test_before_there_is_an_answer(monkeypatch):
    """Nothing is stored, and a model that was fitted stays as it was."""
    model = PCA(2, solver="vr", random_state=0).fit(DENSE)
    before = model.components_.copy()
    count(monkeypatch, View, "product", 1)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(DENSE[:, :30])
    assert not isinstance(caught.value, Interrupted)
    np.testing.assert_array_equal(model.components_, before)
    assert model.transform(DENSE).shape == (400, 2)


def test_an_interrupted_fit_is_no_warning(recwarn):
    with interrupted():
        svd("vr", callback=at_epoch(1))
    assert not recwarn.list


def test_it_can_be_pickled():
    """Workers hand it to the process that started them."""
    with interrupted() as caught:
        svd("vr", callback=at_epoch(1))
    twin = pickle.loads(pickle.dumps(caught.value))
    np.testing.assert_array_equal(twin.decomposition.Vt, caught.value.decomposition.Vt)


def test_a_warm_start_goes_on_from_it():
    options = {"solver": "vr", "tol": 1e-10, "random_state": 0, "warm_start": True, "max_passes": 400}
    cold = PCA(2, **options).fit(DENSE)
    model = PCA(2, **options, callback=at_epoch(cold.history_[-1].epoch - 1))
    with pytest.raises(KeyboardInterrupt):
        model.fit(DENSE)
    model.set_params(callback=None).fit(DENSE)
    assert model.converged_ and model.n_passes_ < cold.n_passes_ / 2
