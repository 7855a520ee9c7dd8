"""The stochastic epochs: compiled against NumPy with the same row numbers, and against the mathematics they claim."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kernel_cases import (
    COLUMNS,
    DTYPES,
    KINDS,
    MAPS,
    ROWS,
    WIDTHS,
    assert_close,
    cases,
    draw_order,
    make_case,
    snapshot,
    to,
)

from helpers import eps, random_orthonormal, run_python, sine
from vrpca.kernels import _native as native
from vrpca.kernels import reference

SMALL_COLUMNS = (1, 2, 3, 7, 8, 15, 17, 33)


def tolerance(case, m, growth=1.0):
    """Rounding of m steps that, together, may blow an error up by `growth`."""
    size = (case.magnitude**2).sum(1).max(initial=0) / max((case.Z**2).sum(1).mean(), 1e-300)
    return eps(case.dtype) * (20 + 4 * np.sqrt(m)) * (1 + np.sqrt(min(size, 1e6))) * growth


def growth_of(case, order, eta, rho, top):
    """How much m steps of the linear recursions can enlarge W."""
    steps = (1.0 if rho is None else rho[order]) * (case.Z**2).sum(1)[order]
    return float(
        np.exp(np.minimum(np.sum(np.log1p(np.asarray(eta) * steps)) + np.sum(eta * np.ones(len(order))) * top, 600))
    )


def importance(case, use, rng):
    return rng.uniform(0.2, 1.5, case.shape[0]) if use else None


# ---------------------------------------------------------------------------------------------------- vr_vector


def vector_inputs(case, rng, locked=0, moved=False):
    """w, w0, u, p, V, Q in the case's dtype; w0 and u orthogonal to V."""
    W0, U, P, _ = snapshot(case, locked + 1, rng)
    V = W0[:, :locked] if locked else None
    w0, u, p = W0[:, locked], U[:, locked], P[:, locked]
    w = w0
    if locked:
        u = u - V @ (V.T @ u)
    if moved:
        step = rng.standard_normal(case.shape[1])
        w = w0 + 0.3 * (step if V is None else step - V @ (V.T @ step))
        w = w / np.linalg.norm(w)
    w, w0, u, p = to(case.dtype, w, w0, u, p)
    V, Q = to(case.dtype, V, P[:, :locked]) if locked else (None, None)
    return w, w0, u, p, V, Q


def check_vector(case, rng, m, eta, locked=0, moved=False, rho=None, tol=None):
    w, w0, u, p, V, Q = vector_inputs(case, rng, locked, moved)
    order = draw_order(rng, case.shape[0], m)
    twin = w.astype(float)
    given_ = [a if a is None else a.copy() for a in (w0, u, p, V, Q, order, rho)]
    reference.vr_vector(case.rows(reference), twin, w0, u, p, V, Q, order, eta, rho)
    native.vr_vector(case.rows(native), w, w0, u, p, V, Q, order, eta, rho)
    assert_close(w, twin, tolerance(case, m) if tol is None else tol)
    assert np.linalg.norm(w.astype(float)) == pytest.approx(1, abs=tolerance(case, m))
    for before, after in zip(given_, (w0, u, p, V, Q, order, rho), strict=True):
        np.testing.assert_array_equal(before, after)
    return w


@settings(max_examples=120)
@given(cases(rows=ROWS), st.sampled_from((0, 1, 30, 300)), st.integers(0, 3), st.booleans(), st.booleans())
def test_vr_vector_agrees_with_its_twin_on_any_input(drawn, m, locked, moved, weighted):
    case, rng = drawn
    assume(locked < case.shape[1])
    eta = min(0.3 / np.sqrt(case.shape[0]), 3 / max(m, 1))  # an unstable start must not magnify its rounding too far
    check_vector(case, rng, m, eta, locked, moved, importance(case, weighted, rng))


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("locked", [0, 2])
def test_vr_vector_with_every_row_map(kind, maps, locked, rng):
    case = make_case(rng, 65, 16, kind, np.float64, maps)
    check_vector(case, rng, 130, 0.05, locked, True, importance(case, True, rng))


@pytest.mark.parametrize("d", COLUMNS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_vr_vector_of_every_length(kind, dtype, d, rng):
    check_vector(make_case(rng, 65, d, kind, dtype, (False, True, False, False)), rng, 100, 0.05, moved=True)


@pytest.mark.parametrize("locked", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vr_vector_folds_many_times_and_stays_right(kind, dtype, locked, rng):
    """Steps so long that the lazy scale falls below 1e-3 every few of them."""
    case = make_case(rng, 65, 17, kind, dtype, (True, True, True, False), density=0.6)
    w, w0, u, p, V, Q = vector_inputs(case, rng, locked)
    order, eta = draw_order(rng, 65, 600), 1.0
    exact, shrink = w.astype(float), 0.0
    Z = case.Z if V is None else case.Z - (case.Z @ V) @ V.T
    for i in order:
        exact += eta * (Z[i] * (Z[i] @ exact - p[i]) + u)
        shrink += np.log(np.linalg.norm(exact))
        exact /= np.linalg.norm(exact)
    assert shrink / -np.log(1e-3) > 10  # the scale would have shrunk by 1e-3 that many times
    native.vr_vector(case.rows(native), w, w0, u, p, V, Q, order, eta, None)
    assert_close(w, exact, 2000 * eps(dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eta", [0.01, 0.1, 5.0])
def test_vr_vector_is_algorithm_1(kind, eta, rng):
    """Algorithm 1 as printed, on the rows in full: m steps of the inner loop, with x^T w~ computed at every step."""
    case = make_case(rng, 50, 12, kind, np.float64, (False, True, False, False), density=0.5)
    Z, n = case.Z, 50
    w_tilde = random_orthonormal(12, 1, rng)[:, 0]
    order = draw_order(rng, n, 200)

    u_tilde = sum(z * (z @ w_tilde) for z in Z) / n
    w_t = w_tilde.copy()
    for i in order:
        x = Z[i]
        w_prime = w_t + eta * (x * (x @ w_t - x @ w_tilde) + u_tilde)
        w_t = w_prime / np.linalg.norm(w_prime)

    w, w0, u, p = to(np.float64, w_tilde, w_tilde, u_tilde, Z @ w_tilde)
    native.vr_vector(case.rows(native), w, w0, u, p, None, None, order, eta, None)
    np.testing.assert_allclose(w, w_t, atol=2e-12)


@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_the_snapshots_own_image_keeps_an_eigenvector_where_it_is(kind, rng):
    """At an eigenvector the variance is gone: every step returns it."""
    case = make_case(rng, 65, 9, kind, np.float64, (False, True, False, False), density=0.8)
    A = case.Z.T @ case.Z / 65
    w0 = np.linalg.eigh(A)[1][:, -1].copy()
    w = w0.copy()
    native.vr_vector(case.rows(native), w, w0, A @ w0, case.Z @ w0, None, None, draw_order(rng, 65, 1000), 0.1, None)
    np.testing.assert_allclose(w, w0, atol=1e-13)


def appendix_a(Z, w0, u, p, order, eta, corrected):
    """Appendix A: w = alpha g + beta u with gamma = |alpha g|^2, delta = <alpha g, u>, zeta = |u|^2."""
    g, alpha, beta = w0.copy(), 1.0, 0.0
    gamma, delta, zeta = g @ g, g @ u, u @ u
    for i in order:
        z = Z[i]
        change = eta * z * (alpha * (z @ g) + beta * (z @ u) - p[i])
        gamma += 2 * alpha * (g @ change) + change @ change  # with the g from before the step
        delta += change @ u
        g = g + change / alpha
        beta += eta
        square = gamma + 2 * beta * delta + beta**2 * zeta if corrected else gamma + 2 * delta + zeta
        norm = np.sqrt(square)
        alpha, beta, gamma, delta = alpha / norm, beta / norm, gamma / square, delta / norm
    return alpha * g + beta * u


def test_appendix_a_needs_beta_in_its_norm(rng):
    case = make_case(rng, 40, 10)
    w, w0, u, p, _, _ = vector_inputs(case, rng)
    order = draw_order(rng, 40, 60)
    native.vr_vector(case.rows(native), w, w0, u, p, None, None, order, 0.05, None)
    corrected = appendix_a(case.Z, w0, u, p, order, 0.05, corrected=True)
    printed = appendix_a(case.Z, w0, u, p, order, 0.05, corrected=False)
    assert np.linalg.norm(corrected) == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(w, corrected, atol=1e-12)
    assert abs(np.linalg.norm(printed) - 1) > 1e-2


def test_deflation_stays_in_the_complement(rng):
    case = make_case(rng, 65, 12, "csr32", np.float64, (False, True, False, False), density=0.5)
    w, w0, u, p, V, Q = vector_inputs(case, rng, locked=3)
    native.vr_vector(case.rows(native), w, w0, u, p, V, Q, draw_order(rng, 65, 500), 0.1, None)
    assert np.abs(V.T @ w).max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_vr_vector_in_two_pieces_is_vr_vector(kind, rng):
    """Epochs are walked in pieces: where they are cut must not matter."""
    case = make_case(rng, 65, 15, kind, np.float64, (True, True, True, True))
    w, w0, u, p, _, _ = vector_inputs(case, rng)
    order, once = draw_order(rng, 65, 200), w.copy()
    native.vr_vector(case.rows(native), once, w0, u, p, None, None, order, 0.1, None)
    for part in (order[:77], order[77:]):
        native.vr_vector(case.rows(native), w, w0, u, p, None, None, part, 0.1, None)
    np.testing.assert_allclose(w, once, atol=1e-12)


EMPTY_EPOCHS = """
import numpy as np
from vrpca.kernels import _native as native

order, index = np.zeros(0, np.int64), np.zeros(0, np.int32)
dense = native.dense_rows(np.zeros((0, 4)), None, None, None, None, 1.0)
sparse = native.csr_rows(np.zeros(1, np.int32), index, np.zeros(0), 4, None, None, None, None, 1.0)
for rows in (dense, sparse):
    w = np.array([0.6, 0.8, 0.0, 0.0])
    native.vr_vector(rows, w, w.copy(), w.copy(), np.zeros(0), None, None, order, 0.1, None)
    assert np.allclose(w, [0.6, 0.8, 0, 0], rtol=0, atol=1e-15), w
    W = np.eye(4)[:, :2].copy()
    native.vr_block(rows, W, W.copy(), native.vr_panel(rows, W), np.zeros((0, 2)), np.ones(2), order, 0.1, None)
    native.vr_gram_schmidt(rows, W, W.copy(), np.zeros((0, 2)), order, 0.1, None)
    native.oja_block(rows, W, order, np.zeros(0), None)
    assert np.array_equal(W, np.eye(4)[:, :2]), W
"""


def test_an_epoch_over_a_block_of_no_rows_changes_nothing():
    """In a process of its own: it must not read a row that is not there."""
    ended = run_python(EMPTY_EPOCHS)
    assert ended.returncode == 0, ended.stderr


# ----------------------------------------------------------------------------------------------------- vr_block


def vr_block(implementation, case, W, W0, U, *rest):
    """An epoch with a panel of its own."""
    rows = case.rows(implementation)
    implementation.vr_block(rows, W, W0, implementation.vr_panel(rows, U), *rest)


def check_block(case, rng, width, m, eta, rho=None, moved=False):
    W0, U, P, theta = snapshot(case, width, rng)
    W = np.linalg.qr(W0 + 0.3 * rng.standard_normal(W0.shape))[0] if moved else W0
    W, W0, U, P = to(case.dtype, W, W0, U, P)
    order, twin = draw_order(rng, case.shape[0], m), W.astype(float)
    given_ = [W0.copy(), U.copy(), P.copy(), theta.copy(), order.copy()]
    vr_block(reference, case, twin, W0, U, P, theta, order, eta, rho)
    vr_block(native, case, W, W0, U, P, theta, order, eta, rho)
    tol = tolerance(case, m, growth_of(case, order, eta, rho, max(theta[0], 0)))
    assert_close(W, twin, tol)
    s = np.linalg.svd(twin, compute_uv=False)
    assert sine(W, twin) <= tol * np.sqrt(W.size) / s[-1] + 100 * eps(case.dtype)
    for before, after in zip(given_, (W0, U, P, theta, order), strict=True):
        np.testing.assert_array_equal(before, after)


@settings(max_examples=120)
@given(cases(), st.sampled_from(WIDTHS), st.sampled_from((0, 1, 20, 100)), st.booleans(), st.booleans())
def test_vr_block_agrees_with_its_twin_on_any_input(drawn, width, m, moved, weighted):
    case, rng = drawn
    assume(width <= case.shape[1])
    check_block(case, rng, width, m, 0.02, importance(case, weighted, rng), moved)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_vr_block_of_every_width(kind, dtype, width, rng):
    check_block(make_case(rng, 65, 33, kind, dtype, (True, True, True, True)), rng, width, 50, 0.02, moved=True)


@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("kind", KINDS)
def test_vr_block_with_every_row_map(kind, maps, rng):
    case = make_case(rng, 65, 16, kind, np.float64, maps)
    check_block(case, rng, 5, 65, 0.02, importance(case, True, rng), moved=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eta", [0.02, 0.3])
def test_orthonormalising_in_between_does_not_change_the_span(kind, eta, rng):
    case = make_case(rng, 65, 17, kind, np.float64, (False, True, False, False), density=0.6)
    W0, U, P, theta = snapshot(case, 4, rng)
    W0, U, P = to(np.float64, W0, U, P)
    order = draw_order(rng, 65, 120)
    straight, cleaned, gauged = W0.copy(), W0.copy(), W0.copy()
    vr_block(native, case, straight, W0, U, P, theta, order, eta, None)
    for t in range(0, 120, 10):
        vr_block(native, case, cleaned, W0, U, P, theta, order[t : t + 10], eta, None)
        (cleaned,) = to(np.float64, np.linalg.qr(cleaned)[0])
        vr_block(native, case, gauged, W0, U, P, theta, order[t : t + 10], eta, None)
        (gauged,) = to(np.float64, gauged @ np.linalg.inv(W0.T @ gauged))
    condition = np.linalg.cond(straight)
    assert sine(cleaned, straight) < 1e-13 * condition
    assert sine(gauged, straight) < 1e-13 * condition


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("implementation", [native, reference])
def test_one_panel_serves_an_epoch(implementation, kind, rng):
    """What a call leaves in the panel does not matter to the next one, nor do other rows of the same data."""
    case = make_case(rng, 65, 17, kind, np.float64, (True, True, False, False), density=0.6)
    W0, U, P, theta = snapshot(case, 4, rng)
    W0, U, P = to(np.float64, W0, U, P)
    kept, fresh, order = W0.copy(), W0.copy(), draw_order(rng, 65, 60)
    panel = implementation.vr_panel(case.rows(implementation), U)
    for t in range(0, 60, 20):
        rows = case.rows(implementation)
        implementation.vr_block(rows, kept, W0, panel, P, theta, order[t : t + 20], 0.05, None)
        vr_block(implementation, case, fresh, W0, U, P, theta, order[t : t + 20], 0.05, None)
        np.testing.assert_array_equal(kept, fresh)


def test_the_block_step_is_the_projection_control_variate(rng):
    """W <- (I + eta [z z^T (I - W0 W0^T) + U W0^T]) W, as the design states it, one step at a time."""
    case = make_case(rng, 65, 12, "csr32", np.float64, (True, True, False, False), density=0.5)
    W0, U, P, theta = snapshot(case, 3, rng)
    W0, U, P = to(np.float64, W0, U, P)
    W, order, identity = W0.copy(), draw_order(rng, 65, 80), np.eye(12)
    exact = W.copy()
    for i in order:
        z = case.Z[i]
        exact = (identity + 0.05 * (np.outer(z, z) @ (identity - W0 @ W0.T) + U @ W0.T)) @ exact
    vr_block(native, case, W, W0, U, P, theta, order, 0.05, None)
    np.testing.assert_allclose(W, exact, rtol=0, atol=1e-12 * np.abs(exact).max())


# -------------------------------------------------------------------------------------------- vr_gram_schmidt, oja


@settings(max_examples=80)
@given(
    cases(columns=SMALL_COLUMNS),
    st.sampled_from((1, 2, 3, 4, 5, 8, 9, 17)),
    st.sampled_from((0, 1, 40)),
    st.booleans(),
)
def test_vr_gram_schmidt_agrees_with_its_twin(drawn, width, m, weighted):
    case, rng = drawn
    assume(width <= case.shape[1])
    W0, U, P, _ = snapshot(case, width, rng)
    W, U, P = to(case.dtype, W0, U, P)
    order, twin, rho = draw_order(rng, case.shape[0], m), W.astype(float), importance(case, weighted, rng)
    reference.vr_gram_schmidt(case.rows(reference), twin, U, P, order, 0.05, rho)
    native.vr_gram_schmidt(case.rows(native), W, U, P, order, 0.05, rho)
    assert_close(W, twin, 4 * tolerance(case, m))
    assert_close(W.T.astype(float) @ W, np.eye(width), 50 * eps(case.dtype))


def check_oja(case, rng, width, m, rho):
    (W,) = to(case.dtype, rng.standard_normal((case.shape[1], width)) / np.sqrt(case.shape[1]))
    order, twin = draw_order(rng, case.shape[0], m), W.astype(float)
    eta = 0.5 / (10 + np.arange(m))
    reference.oja_block(case.rows(reference), twin, order, eta, rho)
    native.oja_block(case.rows(native), W, order, eta, rho)
    tol = tolerance(case, m, growth_of(case, order, eta, rho, 0))
    assert_close(W, twin, tol)
    if width <= case.shape[1]:
        s = np.linalg.svd(twin, compute_uv=False)
        assert sine(W, twin) <= tol * np.sqrt(W.size) / s[-1] + 100 * eps(case.dtype)


@settings(max_examples=100)
@given(cases(), st.sampled_from(WIDTHS), st.sampled_from((0, 1, 50)), st.booleans())
def test_oja_block_agrees_with_its_twin(drawn, width, m, weighted):
    case, rng = drawn
    check_oja(case, rng, width, m, importance(case, weighted, rng))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_oja_block_of_every_width(kind, width, rng):
    check_oja(make_case(rng, 65, 16, kind, np.float32, (True,) * 4), rng, width, 65, None)


def test_orthonormalising_in_between_does_not_change_ojas_span(rng):
    case = make_case(rng, 65, 12, "csr64", np.float64, (False, True, False, False), density=0.5)
    (straight,) = to(np.float64, random_orthonormal(12, 3, rng))
    order, eta, cleaned = draw_order(rng, 65, 100), 1 / (5 + np.arange(100.0)), straight.copy()
    native.oja_block(case.rows(native), straight, order, eta, None)
    for t in range(0, 100, 20):
        native.oja_block(case.rows(native), cleaned, order[t : t + 20], eta[t : t + 20], None)
        (cleaned,) = to(np.float64, np.linalg.qr(cleaned)[0])
    assert sine(cleaned, straight) < 1e-13 * np.linalg.cond(straight)


# ------------------------------------------------------------------------------------------------------ all of them


@pytest.mark.parametrize("kind", KINDS)
def test_epochs_repeat_to_the_last_bit(kind, rng):
    case = make_case(rng, 65, 17, kind, np.float32, (True,) * 4)
    W0, U, P, theta = snapshot(case, 5, rng)
    W0, U, P = to(np.float32, W0, U, P)
    w0, u, p = to(np.float32, W0[:, 0], U[:, 0], P[:, 0])
    order = draw_order(rng, 65, 200)

    def epochs():
        w, B, G, J = w0.copy(), W0.copy(), W0.copy(), W0.copy()
        rows = case.rows(native)
        native.vr_vector(rows, w, w0, u, p, None, None, order, 0.1, None)
        native.vr_block(rows, B, W0, native.vr_panel(rows, U), P, theta, order, 0.02, None)
        native.vr_gram_schmidt(rows, G, U, P, order, 0.02, None)
        native.oja_block(rows, J, order, np.full(200, 0.01), None)
        return [M.tobytes() for M in (w, B, G, J)]

    assert epochs() == epochs()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_drawn_again_and_again(kind, rng):
    """The last step's row is applied late: nothing may go wrong when it is the next one, too."""
    case = make_case(rng, 9, 8, kind, np.float64, (True, True, True, True), density=1.0)
    w, w0, u, p, _, _ = vector_inputs(case, rng, moved=True)
    order = np.repeat([3, 3, 5, 3, 8, 8], 7)
    twin = w.copy()
    reference.vr_vector(case.rows(reference), twin, w0, u, p, None, None, order, 0.1, None)
    native.vr_vector(case.rows(native), w, w0, u, p, None, None, order, 0.1, None)
    np.testing.assert_allclose(w, twin, atol=1e-12)
