"""What is known of W's complement: probes, estimates from residuals, random searches."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import random_orthonormal
from solvers.problems import view_of, with_eigenvalues
from vrpca.solvers.outside import (
    GROWING,
    TRUSTED,
    YOUNG,
    Complement,
    Probe,
    RandomSearch,
    estimate_outside,
    known_outside,
)


def problem(seed=0, d=60):
    return with_eigenvalues(500, d, 1 / (1 + np.arange(d)) ** 1.2, seed)


def test_the_complement_is_A_without_the_answer():
    view = view_of(problem())
    A = view.matrix()
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 3)))[0]
    outside = np.eye(60) - W @ W.T
    V = np.random.default_rng(1).standard_normal((60, 4))
    expected = outside @ A @ outside @ V
    out = np.empty_like(V)
    assert Complement(view, W).product(V, out=out) is out
    np.testing.assert_allclose(out, expected, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_the_ceiling_comes_down_to_the_largest_eigenvalue_outside(seed):
    view = view_of(problem(seed))
    eigenvalues, vectors = np.linalg.eigh(view.matrix())
    search = RandomSearch(
        view, np.ascontiguousarray(vectors[:, -4:]), eigenvalues[:-4].sum(), 1e-6, np.random.default_rng(seed)
    )
    assert search.ceiling() == eigenvalues[:-4].sum()  # nothing but the trace is known
    ceilings = []
    while not search.exhausted:
        search.step()
        ceilings.append(search.ceiling())
        assert ceilings[-1] >= eigenvalues[-5] * (1 - 1e-12)
    assert ceilings[-1] < 1.5 * eigenvalues[-5]
    leader = search.leader()[:, 0]
    assert abs(leader @ vectors[:, -5]) > 1 - 1e-6


def test_a_smaller_failure_probability_gives_a_higher_ceiling():
    view = view_of(problem())
    W = np.ascontiguousarray(np.linalg.eigh(view.matrix())[1][:, -4:])
    searches = [RandomSearch(view, W, np.inf, failure, np.random.default_rng(0)) for failure in (1e-2, 1e-12)]
    for _ in range(7):
        for search in searches:
            search.step()
    assert searches[0].ceiling() < searches[1].ceiling() < np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 3])
def test_a_probe_sees_where_the_answer_turns_to_even_if_its_start_does_not(width, dtype):
    """The last column of W turns from the next eigenvector to its own, slowly. The start has no part in either."""
    values = np.r_[0.3, 0.25, 0.125, 0.117, 0.08 * 0.9 ** np.arange(56)][3 - width :]
    values /= values.sum()
    d = len(values)
    Q = random_orthonormal(d, d, np.random.default_rng(0))
    A, own, other = (Q * values) @ Q.T, Q[:, width - 1], Q[:, width]
    probe = Probe.random(d, np.dtype(dtype), np.random.default_rng(1))
    probe.column[:] -= (Q[:, : width + 1] @ (Q[:, : width + 1].T @ probe.column)).astype(dtype)
    for angle in (1.3, 1.1, 1.0, 0.9, 0.8):
        W = np.column_stack([Q[:, : width - 1], np.cos(angle) * own + np.sin(angle) * other])
        U = A @ W
        theta = np.diag(W.T @ U)
        probe = probe.updated((A @ probe.column).astype(dtype), W.astype(dtype), U.astype(dtype), theta)
    outside = np.eye(d) - W @ W.T
    assert probe.products > TRUSTED
    assert probe.bound(theta) >= np.linalg.eigvalsh(outside @ A @ outside)[-1]


def test_a_probe_that_is_followed_for_long_keeps_its_images():
    """Images are combined from images: in float32 they may drift, and are then made anew."""
    values = np.r_[0.43, 0.0096, np.full(60, 0.0094)]
    values /= values.sum()
    close = []
    for seed in range(12):  # rounding decides when a probe has to begin again
        rng = np.random.default_rng(seed)
        Q = random_orthonormal(62, 62, rng)
        A = ((Q * values) @ Q.T).astype(np.float32)
        W = Q[:, :1].astype(np.float32)
        U = A @ W
        theta = np.array([float(W[:, 0] @ U[:, 0])])
        probe = Probe.random(62, np.dtype(np.float32), rng)
        for _ in range(400):
            probe = probe.updated(A @ probe.column, W, U, theta)
            bound = probe.bound(theta)
            assert values[1] * (1 - 1e-5) <= bound <= 1 - theta[0] + 1e-6
            close.append(bound < 1.05 * values[1])
        assert np.isfinite(probe.pairs).all()
    assert np.mean(close) > 0.8


def followed(A, W, dtype, seed, steps):
    """A probe of A outside W, step by step."""
    W = np.ascontiguousarray(W, dtype)
    U = (A @ W).astype(dtype)
    theta = np.einsum("ij,ij->j", W.astype(float), U.astype(float))
    probe = Probe.random(len(A), np.dtype(dtype), np.random.default_rng(seed))
    for _ in range(steps):
        probe = probe.updated((A @ probe.column).astype(dtype), W, U, theta)
        yield probe, theta


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_probe_climbs_to_the_largest_eigenvalue_outside(seed, columns, dtype):
    """Its value is a Rayleigh quotient outside W: it never exceeds that eigenvalue.

    It does not fall, either, except for what is lost with directions that are taken for dependent: below 1e-6.
    """
    A = view_of(problem(seed)).matrix()
    eigenvalues, vectors = np.linalg.eigh(A)
    largest, rounding = eigenvalues[-columns - 1], 200 * float(np.finfo(dtype).eps)
    before, W = 0.0, vectors[:, : -columns - 1 : -1]
    for probe, theta in followed(A, W, dtype, seed, 30):
        vector = probe.pairs[0].astype(float)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e3 * rounding)
        assert np.abs(W.T @ vector).max() < 1e2 * rounding
        assert probe.value == pytest.approx(vector @ A @ vector, abs=1e2 * rounding)
        assert before * (1 - 1e-6) - rounding <= probe.value <= largest + rounding
        assert probe.bound(theta) >= probe.value
        residual = A @ vector - probe.value * vector
        assert probe.residual == pytest.approx(np.linalg.norm(residual - W @ (W.T @ residual)), abs=1e2 * rounding)
        before = probe.value
    assert probe.products == 30
    assert probe.value == pytest.approx(largest, rel=1e-4)
    assert largest - rounding <= probe.bound(theta) < 1.1 * largest


def test_a_probe_is_a_value():
    """The next probe takes over the arrays; what the old one found stays."""
    A = view_of(problem()).matrix()
    probes = [probe for probe, _ in followed(A, np.eye(60)[:, :2], np.float64, 0, 5)]
    assert [probe.products for probe in probes] == [1, 2, 3, 4, 5]
    assert len({probe.value for probe in probes}) == 5
    assert all(probe.pairs is probes[0].pairs for probe in probes)
    with pytest.raises(AttributeError):
        probes[0].value = 1.0


def test_a_probe_begins_with_a_random_unit_vector():
    one, same, other = (Probe.random(500, np.dtype(np.float32), np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.linalg.norm(one.column) == pytest.approx(1, abs=1e-6) and one.column.dtype == np.float32
    np.testing.assert_array_equal(one.column, same.column)
    assert (one.column != other.column).any()
    assert one.products == 0 and one.bound(np.array([0.7])) == pytest.approx(0.3)


def test_a_probe_finds_nothing_outside_of_everything():
    A = np.diag([0.5, 0.3, 0.2])
    for probe, theta in followed(A, np.eye(3), np.float64, 0, 3):
        assert probe.value == probe.residual == 0
        assert probe.bound(theta) == pytest.approx(0, abs=1e-15)


def estimate(value, residual, products, theta, share=1.0):
    """The estimate from one vector outside W."""
    return estimate_outside(theta, np.array([value]), np.array([residual]), products, share)


def test_the_estimate_is_the_value_and_what_its_residual_allows_for():
    """Never above the trace that is left; a young residual counts several times, a very young one not at all."""
    theta = np.array([0.4, 0.2])
    for products in range(TRUSTED):
        assert estimate(0.1, 0.01, products, theta) == pytest.approx(0.4)
    assert estimate(0.1, 0.01, TRUSTED, theta) == pytest.approx(0.1 + 0.01 * (1 + YOUNG))
    estimates = [estimate(0.1, 0.01, products, theta) for products in (3, 6, 60, 10**9)]
    assert estimates == sorted(estimates, reverse=True) and estimates[-1] == pytest.approx(0.1 + 0.01 * (1 + GROWING))
    assert estimate(0.39, 0.1, 10, theta) == pytest.approx(0.4)
    assert estimate(0.1, 0.1, 10, np.array([0.9, 0.2])) == 0  # rounding may leave less than nothing


def test_what_is_far_below_the_complement_knows_nothing_of_it():
    theta = np.array([0.02])
    assert estimate(0.05, 0.0, 10, theta) == pytest.approx(0.98)
    assert estimate(0.03, 0.0, 10, theta) == pytest.approx(0.03)


def test_the_pair_that_may_grow_highest_counts():
    theta, values, residuals = np.array([0.4, 0.2]), np.array([0.14, 0.1]), np.array([0.0, 0.04])
    assert estimate_outside(theta, values, residuals, 60) == pytest.approx(0.1 + 0.04 * (1 + GROWING))
    assert estimate_outside(theta, values[:0], residuals[:0], 6) == pytest.approx(0.4)  # nothing was followed


def test_what_a_search_space_knows_of_its_pairs_outside():
    """All of it if the space is full, nothing but the trace if no pair is left, an estimate otherwise."""
    theta = np.array([0.5, 0.2, 0.1])
    assert known_outside(theta, 2, None) == (0.1, "exact")
    assert known_outside(theta, 3, None) == (0.0, "exact")
    assert known_outside(theta, 3, np.zeros(0), 9) == (pytest.approx(0.2), "estimated")
    assert known_outside(theta, 2, np.array([0.01]), 3) == (pytest.approx(0.1 + 0.01 * (1 + YOUNG)), "estimated")


def test_an_estimate_of_narrow_products_grows_old_slowly():
    """A product that follows a quarter of the vectors counts as a quarter of one."""
    theta = np.array([0.4])
    assert estimate(0.1, 0.01, 3, theta, share=0.25) == pytest.approx(0.6)
    assert estimate(0.1, 0.01, 5, theta, share=0.2) == pytest.approx(0.1 + 0.01 * (1 + TRUSTED))  # as one product
