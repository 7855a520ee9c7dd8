"""Wrong arguments: the compiled kernels raise, change nothing, and never work on a silent copy."""

import sys
import threading

import numpy as np
import pytest
from kernel_cases import KINDS, draw_order, make_case, snapshot, to

from vrpca.kernels import _native as native

N, D, L, J = 12, 7, 3, 2


def arguments(case, rng):
    """Valid arguments of every kernel, by name."""
    dtype = case.dtype
    W0, U, P, theta = snapshot(case, L, rng)
    W0, U, P = to(dtype, W0, U, P)
    w0, u, p, V, Q = to(dtype, W0[:, J], U[:, J], P[:, J], W0[:, :J], P[:, :J])
    order = draw_order(rng, N, 10)
    rho = np.ones(N)
    return {
        "product": {"W": W0, "U": U, "P": P, "threads": 1},
        "product_with_moments": {
            "W": W0, "U": U, "weight": np.ones(N), "factor": 1.0, "about_zero": False, "threads": 1,
        },
        "row_norms": {"norms": np.zeros(N)},
        "moments": {"weight": np.ones(N), "factor": 1.0, "threads": 1},
        "vr_vector": {
            "w": w0.copy(), "w0": w0, "u": u, "p": p, "V": V, "Q": Q, "order": order, "eta": 0.1, "rho": rho,
        },
        "vr_block": {
            "W": W0.copy(), "W0": W0, "panel": native.vr_panel(case.rows(native), U), "P": P, "theta": theta,
            "order": order, "eta": 0.1, "rho": rho,
        },
        "vr_panel": {"U": U},
        "vr_gram_schmidt": {"W": W0.copy(), "U": U, "P": P, "order": order, "eta": 0.1, "rho": rho},
        "oja_block": {"W": W0.copy(), "order": order, "eta": np.full(10, 0.1), "rho": rho},
    }  # fmt: skip


OUTPUTS = {
    "product": ("U", "P"),
    "product_with_moments": ("U",),
    "row_norms": ("norms",),
    "moments": (),
    "vr_vector": ("w",),
    "vr_panel": (),
    "vr_block": ("W", "panel"),
    "vr_gram_schmidt": ("W",),
    "oja_block": ("W",),
}
ARRAYS = {
    "product": ("W", "U", "P"),
    "product_with_moments": ("W", "U", "weight"),
    "row_norms": ("norms",),
    "moments": ("weight",),
    "vr_vector": ("w", "w0", "u", "p", "V", "Q", "order", "rho"),
    "vr_panel": ("U",),
    "vr_block": ("W", "W0", "panel", "P", "theta", "order", "rho"),
    "vr_gram_schmidt": ("W", "U", "P", "order", "rho"),
    "oja_block": ("W", "order", "eta", "rho"),
}
EACH = [(kernel, name) for kernel, names in ARRAYS.items() for name in names]
ANY_LAYOUT = (("product", "W"), ("product", "U"))  # of dense rows
WRITTEN = [(kernel, name) for kernel, names in OUTPUTS.items() for name in names]


def assert_refused(kernel, case, given):
    before = {name: value.tobytes() for name, value in given.items() if isinstance(value, np.ndarray)}
    with pytest.raises((TypeError, ValueError)):
        getattr(native, kernel)(case.rows(native), **given)
    assert before == {name: value.tobytes() for name, value in given.items() if isinstance(value, np.ndarray)}


def other_dtype(a):
    return a.astype({"float64": "float32", "float32": "float64", "int64": "int32"}[a.dtype.name])


def strided(a):
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def longer(a):
    return np.concatenate([a, a[:1]])


def shorter(a):
    return a[:-1].copy()


def wider(a):
    return np.concatenate([a, a[..., :1]], axis=-1) if a.ndim > 1 else longer(a)


def more_dimensions(a):
    return a[..., None].copy()


SPOILERS = [other_dtype, strided, longer, shorter, wider, more_dimensions]


@pytest.mark.parametrize("kind", ["dense", "csr64"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", list(ARRAYS))
def test_valid_arguments_are_taken(kernel, dtype, kind, rng):
    case = make_case(rng, N, D, kind, dtype)
    given = arguments(case, rng)[kernel]
    before = {name: value.copy() for name, value in given.items() if isinstance(value, np.ndarray)}
    getattr(native, kernel)(case.rows(native), **given)
    changed = {name for name, value in before.items() if not np.array_equal(value, given[name])}
    assert changed == set(OUTPUTS[kernel])


@pytest.mark.parametrize("spoil", SPOILERS)
@pytest.mark.parametrize(("kernel", "name"), EACH)
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_wrong_type_order_or_shape_is_refused(kind, kernel, name, spoil, rng):
    case = make_case(rng, N, D, kind, np.float32)
    given = arguments(case, rng)[kernel]
    if name == "order" and spoil in (longer, shorter, wider) and kernel != "oja_block":
        pytest.skip("any number of steps is right")
    if (kernel, name, spoil) in (("oja_block", "W", wider), ("vr_panel", "U", wider)):
        pytest.skip("any number of columns is right")
    if kind == "dense" and spoil is strided and (kernel, name) in ANY_LAYOUT:
        pytest.skip("any layout is right")
    given[name] = spoil(given[name])
    assert_refused(kernel, case, given)


@pytest.mark.parametrize("kind", ["dense", "csr32"])
@pytest.mark.parametrize(("kernel", "name"), EACH)
def test_fortran_order_is_refused(kernel, name, kind, rng):
    case = make_case(rng, N, D, kind)
    given = arguments(case, rng)[kernel]
    if given[name].ndim == 1:
        pytest.skip("a vector has no order")
    if kind == "dense" and (kernel, name) in ANY_LAYOUT:
        pytest.skip("any layout is right")
    given[name] = np.asfortranarray(given[name])
    assert_refused(kernel, case, given)


@pytest.mark.parametrize(("kernel", "name"), WRITTEN)
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_a_read_only_result_is_refused(kind, kernel, name, rng):
    case = make_case(rng, N, D, kind)
    given = arguments(case, rng)[kernel]
    given[name].flags.writeable = False
    assert_refused(kernel, case, given)


@pytest.mark.parametrize(("kernel", "name"), [pair for pair in EACH if pair not in WRITTEN])
def test_read_only_inputs_are_taken(kernel, name, rng):
    case = make_case(rng, N, D)
    given = arguments(case, rng)[kernel]
    given[name] = given[name].copy()
    given[name].flags.writeable = False
    getattr(native, kernel)(case.rows(native), **given)


@pytest.mark.parametrize("bad", [-1, N, 2**62, -(2**62)])
@pytest.mark.parametrize("kernel", ["vr_vector", "vr_block", "vr_gram_schmidt", "oja_block"])
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_row_numbers_outside_the_block_are_refused(kind, kernel, bad, rng):
    case = make_case(rng, N, D, kind)
    given = arguments(case, rng)[kernel]
    for place in (0, 5, 9):
        given["order"] = draw_order(rng, N, 10)
        given["order"][place] = bad
        assert_refused(kernel, case, given)


@pytest.mark.parametrize("missing", ["V", "Q"])
def test_deflation_needs_both_its_matrices(missing, rng):
    case = make_case(rng, N, D)
    given = arguments(case, rng)["vr_vector"]
    given[missing] = None
    assert_refused("vr_vector", case, given)


@pytest.mark.parametrize("name", ["W", "U"])
def test_product_needs_its_matrices(name, rng):
    case = make_case(rng, N, D)
    given = arguments(case, rng)["product"]
    given[name] = None
    assert_refused("product", case, given)


def csr_arguments(index=np.int32):
    return [np.array([0, 2, 2, 4], index), np.array([0, 3, 1, 2], index), np.arange(1.0, 5.0), 4]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("indptr decreases", [0, 3, 2, 4]),
        ("indptr starts below zero", [-1, 2, 2, 4]),
        ("indptr ends past the data", [0, 2, 2, 5]),
        ("indptr is empty", []),
        ("a column below zero", [0, -1, 1, 2]),
        ("a column past the last", [0, 4, 1, 2]),
        ("fewer indices than values", [0, 3, 1]),
    ],
)
def test_a_broken_csr_matrix_is_refused(place, value, index):
    parts = csr_arguments(index)
    parts[0 if place.startswith("indptr") else 1] = np.array(value, index)
    with pytest.raises((TypeError, ValueError)):
        native.csr_rows(*parts, None, None, None, None, 1.0)


@pytest.mark.parametrize("columns", [-1, -(2**62)])
def test_a_negative_number_of_columns_is_refused(columns):
    with pytest.raises(ValueError, match="negative"):
        native.csr_rows(np.zeros(3, np.int32), np.zeros(0, np.int32), np.zeros(0), columns, *[None] * 4, 1.0)


@pytest.mark.parametrize("spoil", SPOILERS)
@pytest.mark.parametrize("name", ["G", "first", "squares"])
def test_gram_refuses_what_is_wrong(name, spoil, rng):
    case = make_case(rng, N, D)
    given = {"G": np.zeros((D, D)), "first": np.zeros(D), "squares": np.zeros(D), "threads": 1}
    native.gram(case.rows(native), **given)
    given[name] = spoil(given[name])
    assert_refused("gram", case, given)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("bad", ["lowest", -1, 9, "highest"])
def test_a_wrong_column_is_found_wherever_it_is(bad, index):
    bad = {"lowest": np.iinfo(index).min, "highest": np.iinfo(index).max}.get(bad, bad)
    columns = np.tile(np.arange(9, dtype=index), 5)
    indptr = np.array([0, columns.size], index)
    native.csr_rows(indptr, columns, np.ones(columns.size), 9, None, None, None, None, 1.0)
    for at in range(columns.size):
        broken = columns.copy()
        broken[at] = bad
        with pytest.raises(ValueError, match="column index"):
            native.csr_rows(indptr, broken, np.ones(columns.size), 9, None, None, None, None, 1.0)


@pytest.mark.parametrize("change", [np.int16, np.uint32, np.float64])
@pytest.mark.parametrize("part", [0, 1])
def test_other_index_types_are_refused(part, change):
    parts = csr_arguments()
    parts[part] = parts[part].astype(change)
    with pytest.raises(TypeError):
        native.csr_rows(*parts, None, None, None, None, 1.0)


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.complex128, np.longdouble, ">f8"])
def test_other_value_types_are_refused(dtype):
    with pytest.raises(TypeError):
        native.dense_rows(np.ones((2, 3), dtype), None, None, None, None, 1.0)
    parts = csr_arguments()
    parts[2] = parts[2].astype(dtype)
    with pytest.raises(TypeError):
        native.csr_rows(*parts, None, None, None, None, 1.0)


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("kind", ["dense", "csr32"])
def test_row_maps_of_a_wrong_length_or_type_are_refused(kind, which, rng):
    case = make_case(rng, N, D, kind, np.float32, (True,) * 4)
    right = list(case.row_map)
    for wrong in (longer(right[which]), shorter(right[which]), other_dtype(right[which]), strided(right[which])):
        case.row_map = (*right[:which], wrong, *right[which + 1 :])
        with pytest.raises((TypeError, ValueError)):
            case.rows(native)


def test_rows_keep_their_arrays_alive(rng):
    case = make_case(rng, 500, 40, "csr32", np.float64, (True,) * 4)
    expected = (case.Z**2).sum(1)
    rows = case.rows(native)
    del case
    np.testing.assert_array_equal([rng.random(500_000).sum() > 0 for _ in range(5)], True)  # reuse freed memory
    norms = np.empty(500)
    native.row_norms(rows, norms)
    np.testing.assert_allclose(norms, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel", [kernel for kernel in ARRAYS if kernel != "vr_panel"])  # a copy is over too soon
@pytest.mark.parametrize("kind", KINDS[:2])
def test_other_threads_run_while_a_kernel_works(kind, kernel, rng):
    """With a switch interval of minutes, another thread can only run where the kernel itself lets go of the GIL.

    On a busy machine the other thread may wake up too late, so there are many tries, with longer and longer work.
    """
    interval = sys.getswitchinterval()
    try:
        sys.setswitchinterval(300)
        tries = [40_000, 160_000] + [640_000] * 50
        assert any(_seen_inside(kernel, kind, n, rng) for n in tries)
    finally:
        sys.setswitchinterval(interval)


def _seen_inside(kernel, kind, n, rng):
    X = np.ones((n, 32), np.float32)
    order, W, P = draw_order(rng, n, n), np.ones((32, 8), np.float32), np.ones((n, 8), np.float32)
    rows = native.dense_rows(X, None, None, None, None, 0.1)
    if kind != "dense":
        indptr, indices = np.arange(0, 32 * n + 1, 32, np.int32), np.tile(np.arange(32, dtype=np.int32), n)
        rows = native.csr_rows(indptr, indices, X.ravel(), 32, None, None, None, None, 0.1)
    panel = native.vr_panel(rows, W)
    calls = {
        "product": lambda: native.product(rows, W, W.copy(), None, 1),
        "product_with_moments": lambda: native.product_with_moments(rows, W, W.copy(), None, 1.0, False, 1),
        "row_norms": lambda: native.row_norms(rows, np.empty(n)),
        "moments": lambda: native.moments(rows, None, 1.0, 1),
        "vr_vector": lambda: native.vr_vector(
            rows, W[:, 0].copy(), W[:, 0].copy(), W[:, 0].copy(), P[:, 0].copy(), None, None, order, 1e-3, None
        ),
        "vr_block": lambda: native.vr_block(rows, W.copy(), W, panel, P, np.ones(8), order, 1e-9, None),
        "vr_gram_schmidt": lambda: native.vr_gram_schmidt(rows, W.copy(), W, P, order, 1e-3, None),
        "oja_block": lambda: native.oja_block(rows, W.copy(), order, np.full(n, 1e-9), None),
    }
    state, observed = ["before"], []
    started = threading.Lock()
    started.acquire()

    def watch():
        with started:
            observed.append(state[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    state[0] = "inside"
    started.release()
    calls[kernel]()
    state[0] = "after"
    watcher.join()
    return observed == ["inside"]
