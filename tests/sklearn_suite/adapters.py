"""scikit-learn's tests of its PCA and TruncatedSVD, loaded so that they test ours: a thin adapter of option names.

`LEFT_OUT` lists the tests that cannot pass, each with the reason. They are run all the same and have to fail.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Any
from unittest import mock

import pytest
import sklearn.decomposition

import vrpca

# Which of ours stands in for their solvers, so that the tests see all of them.
SOLVERS = {
    "full": "gram",
    "covariance_eigh": "gram",
    "arpack": "accelerated",
    "randomized": "krylov",
    "auto": "auto",
}
LEAST_TOL = 1e-15  # their 0 means as accurate as rounding allows


class _Adapted:
    """Ours with scikit-learn's options. Those of ours that it does not have keep their defaults."""

    angle_tol = 1e-12  # the tests compare single entries of components to 1e-7: a matter of angles
    max_passes = 50  # equal variances have no angles: those runs are not to go on for long
    n_threads = 1  # the matrices are small, and the tests may run beside others

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return object.__new__(cls)  # not refused here

    def set_params(self, **params: Any) -> Any:
        return super(vrpca.estimators._Decomposer, self).set_params(**params)

    @property
    def tol(self) -> float:
        return max(self.their_tol, LEAST_TOL)

    @tol.setter
    def tol(self, value: float) -> None:
        self.their_tol = value


class PCA(_Adapted, vrpca.PCA):
    """Options that belong to one of scikit-learn's solvers are stored, and mean nothing."""

    solver = property(lambda self: SOLVERS[self.svd_solver])

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        whiten=False,
        svd_solver="auto",
        tol=0.0,
        iterated_power="auto",
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
    ):
        self.n_components, self.whiten, self.random_state, self.tol = n_components, whiten, random_state, tol
        self.copy, self.svd_solver, self.iterated_power = copy, svd_solver, iterated_power
        self.n_oversamples, self.power_iteration_normalizer = n_oversamples, power_iteration_normalizer


class TruncatedSVD(_Adapted, vrpca.TruncatedSVD):
    """The same."""

    solver = property(lambda self: SOLVERS[self.algorithm])

    def __init__(
        self,
        n_components=2,
        *,
        algorithm="randomized",
        n_iter=5,
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
        tol=0.0,
    ):
        self.n_components, self.random_state, self.tol = n_components, random_state, tol
        self.algorithm, self.n_iter = algorithm, n_iter
        self.n_oversamples, self.power_iteration_normalizer = n_oversamples, power_iteration_normalizer


# Patterns of tests' names with parameters, and why they cannot pass.
LEFT_OUT = {
    r"test_sparse_pca_solver_error\[.*": "two of scikit-learn's solvers refuse sparse data, none of ours does",
    r"test_n_components_mle_error\[.*": "two of scikit-learn's solvers refuse 'mle', none of ours does",
    r"test_pca_validation\[arpack-.*": "its arpack refuses n_components=min(n, d), none of our solvers does",
    r"test_n_components_none\[.*arpack-3\]": "its arpack finds min(n, d) - 1 components at most, ours min(n, d)",
    r"test_too_many_components\[arpack-55\]": "its arpack refuses n_components=min(n, d), none of our solvers does",
    r"test_pca_validation\[auto-3-.*": "the message has the name of its solver",
    r"test_pca_score3": "no components, n_components=0, are refused, as by all of its solvers but one",
    r"test_pca_svd_solver_auto\[.*": "a private attribute has the name of the solver that its 'auto' takes",
}


def reason_to_leave_out(name: str) -> str | None:
    """Why a test of this name is left out, if it is."""
    return next((reason for pattern, reason in LEFT_OUT.items() if re.fullmatch(pattern, name)), None)


def suite(module: str) -> dict[str, Any]:
    """The names in one of scikit-learn's test modules, which is loaded with our classes in place of its own."""
    spec = importlib.util.find_spec(f"sklearn.decomposition.tests.{module}")
    if spec is None or spec.loader is None:
        pytest.skip("This scikit-learn is installed without its tests.", allow_module_level=True)
    loaded = importlib.util.module_from_spec(spec)
    with mock.patch.multiple(sklearn.decomposition, PCA=PCA, TruncatedSVD=TruncatedSVD):
        spec.loader.exec_module(loaded)
    found = {name: value for name, value in vars(loaded).items() if not name.startswith("__")}
    for name, value in found.items():
        if name.startswith("test_"):
            value.pytestmark = [_with_lists(mark) for mark in getattr(value, "pytestmark", [])]
    return found


def _with_lists(mark: pytest.Mark) -> pytest.Mark:
    """A mark whose values are not a generator: pytest 9 warns of those."""
    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    return getattr(pytest.mark, mark.name)(names, list(values), *rest, **mark.kwargs).mark
