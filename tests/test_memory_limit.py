"""Memory limits: how they are written, that fits keep to them or refuse, and that answers do not depend on them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from vrpca.data.files.base import FileSource
from vrpca.data.memory import ArraySource
from vrpca.data.open import as_source
from vrpca.data.unloaded import UnloadedFile
from vrpca.memory import as_bytes, in_words
from vrpca.options import Options
from vrpca.plan import make_plan

SOLVERS = ("auto", "accelerated", "krylov", "gram", "power", "vr", "oja", "hybrid")


def smallest(X, **options):
    """The smallest limit, as the refusal of a tiny one names it."""
    with pytest.raises(vrpca.OptionError, match="memory_limit=1 is too small") as refused:
        vrpca.pca(X, memory_limit=1, **{"n_threads": 1} | options)
    return int(re.search(r"Pass memory_limit=(\d+) or more", str(refused.value))[1])


def fit(X, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not all solvers converge within the passes that they get here
        return vrpca.pca(X, random_state=0, **{"n_threads": 1} | options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files with the same numbers in several formats."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    X = rng.standard_normal((1500, 300)) * 0.9 ** np.arange(300) + 1
    np.save(folder / "C.npy", X)
    np.save(folder / "F.npy", np.asfortranarray(X))
    np.save(folder / "single.npy", X.astype(np.float32))
    np.save(folder / "integers.npy", np.rint(100 * X).astype(np.int16))
    np.savez(folder / "dense.npz", X=X)
    S = sp.random_array((1500, 300), density=0.05, rng=rng, format="csr")
    sp.save_npz(folder / "csr.npz", S)
    sp.save_npz(folder / "csc.npz", S.tocsc())
    sp.save_npz(folder / "coo.npz", S.tocoo())
    return folder


FILES = ("C.npy", "F.npy", "single.npy", "integers.npy", "dense.npz", "csr.npz", "csc.npz", "coo.npz")


# ---------------------------------------------------------------------------------------------------- as an option


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("500 MB", 5 * 10**8),
        ("1GiB", 2**30),
        ("1.5gib", 3 * 2**29),
        ("10k", 10**4),
        (" 7 ", 7),
        ("3TB", 3 * 10**12),
        (12345, 12345),
        (np.int64(10**10), 10**10),
    ],
)
def test_sizes_are_read(text, size):
    assert as_bytes(text) == size
    assert Options(memory_limit=text).memory == size


@pytest.mark.parametrize("wrong", ["", "GB", "2 gigs", "-1GB", "1e9", "0", 0, -5, 1.5, True, b"2GB", [1], "0.1"])
def test_other_things_are_refused(wrong):
    with pytest.raises(vrpca.OptionError, match=r"memory_limit=.* must be a number of bytes, such as"):
        Options(memory_limit=wrong)
    with pytest.raises(vrpca.OptionError, match="memory_limit"):
        vrpca.PCA(2, memory_limit=wrong).fit(np.eye(5))


def test_sizes_are_shown_for_people():
    assert [in_words(size) for size in (999, 1000, 123456789, 5e12, 7e15)] == [
        "999 bytes",
        "1 kB",
        "123 MB",
        "5 TB",
        "7e+03 TB",
    ]


# -------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("file", FILES)
def test_the_limit_that_a_refusal_names_is_the_smallest_that_works(folder, file, solver):
    options = {"k": 3, "solver": solver, "max_passes": 4, "compute_u": False}
    limit = smallest(folder / file, **options)
    assert len(fit(folder / file, memory_limit=limit, **options).s) == 3
    with pytest.raises(vrpca.OptionError, match=f"Pass memory_limit={limit} or more"):
        fit(folder / file, memory_limit=limit - 1, **options)


@pytest.mark.parametrize(
    "more",
    [
        {"compute_u": True},
        {"certificate": "probabilistic"},
        {"sampling": "norm", "solver": "vr"},
        {"deflate": True},
        {"k": 0.5},
        {"k": None, "max_passes": 20},
        {"cost": "passes"},
        {"sample_weight": np.ones(1500)},
    ],
    ids=str,
)
def test_that_holds_whatever_is_asked_for(folder, more):
    options = {"k": 3, "max_passes": 6, "compute_u": False} | more
    limit = smallest(folder / "single.npy", **options)
    assert len(fit(folder / "single.npy", memory_limit=limit, **options).s) >= 1
    with pytest.raises(vrpca.OptionError, match=f"Pass memory_limit={limit} or more"):
        fit(folder / "single.npy", memory_limit=limit - 1, **options)


def test_a_refusal_says_what_needs_the_memory(folder):
    with pytest.raises(vrpca.OptionError, match=r"'gram' takes at least .* most of it for A, 300 x 300"):
        vrpca.pca(folder / "C.npy", 3, solver="gram", memory_limit=10**6)


def test_a_refusal_comes_before_the_data_are_read():
    class Unreadable(vrpca.Source):
        shape, dtype = (10**6, 10**5), np.dtype(np.float32)

        def blocks(self, rng=None):
            raise AssertionError("no row may be read")

        def transposed(self):
            raise AssertionError("no row may be read")

    with pytest.raises(vrpca.OptionError, match="memory_limit='1MB' is too small"):
        vrpca.pca(Unreadable(), 3, memory_limit="1MB")


def test_a_fit_that_was_refused_leaves_the_model_alone(folder):
    model = vrpca.PCA(2, random_state=0).fit(folder / "C.npy")
    components = model.components_
    with pytest.raises(vrpca.OptionError, match="too small"):
        model.set_params(memory_limit=1).fit(folder / "C.npy")
    assert model.components_ is components


def test_the_limit_of_data_in_memory_is_for_what_the_fit_adds(folder):
    """A list has to be copied; an array does not."""
    X = np.load(folder / "C.npy")
    options = {"k": 3, "compute_u": False, "solver": "krylov"}
    assert smallest(X, **options) < X.nbytes / 2
    assert smallest(X.tolist(), **options) - smallest(X, **options) == X.nbytes


# --------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("solver", ["auto", "accelerated", "krylov", "gram", "power"])
@pytest.mark.parametrize("file", FILES)
def test_answers_do_not_depend_on_the_limit(folder, file, solver):
    options = {"k": 3, "solver": solver, "compute_u": True, "tol": 1e-6}
    free = fit(folder / file, **options)
    tight = fit(folder / file, memory_limit=smallest(folder / file, **options), **options)
    assert tight.converged == free.converged
    np.testing.assert_allclose(tight.s, free.s, rtol=1e-5)  # tol bounds sums of squares
    np.testing.assert_allclose(np.linalg.norm(tight.U, axis=0), 1, rtol=1e-5)


def test_without_left_vectors_power_iteration_keeps_none_for_the_rows(folder):
    """The singular values come from the Ritz values then."""
    options = {"k": 2, "solver": "power", "tol": 1e-6, "compute_u": False}
    free, limited = (fit(folder / "C.npy", memory_limit=limit, **options) for limit in (None, "1GB"))
    assert smallest(folder / "C.npy", **options) < smallest(folder / "C.npy", **options | {"compute_u": True})
    np.testing.assert_allclose(limited.s, free.s, rtol=1e-12)
    assert limited.U is None


def test_estimators_take_a_limit(folder):
    free = vrpca.PCA(3, random_state=0).fit(folder / "csr.npz")
    limited = vrpca.PCA(3, random_state=0, memory_limit="1GB").fit(folder / "csr.npz")
    np.testing.assert_allclose(limited.explained_variance_, free.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(limited.transform(folder / "csr.npz"), free.transform(folder / "csr.npz"), atol=1e-3)


def test_a_fraction_that_needs_too_many_components_ends_with_a_warning():
    X = np.random.default_rng(0).standard_normal((400, 300)).astype(np.float32)
    options = {"k": 0.5, "solver": "accelerated", "tol": 1e-2, "max_passes": 1000, "compute_u": False}
    limit = smallest(X, **options)
    with pytest.warns(match="memory_limit leaves no room for as many components"):
        found = vrpca.pca(X, memory_limit=limit, random_state=0, n_threads=1, **options)
    assert found.status is vrpca.Status.MEMORY and len(found.s) >= 8


@pytest.mark.parametrize("cost", ["time", "passes"])
@pytest.mark.parametrize("file", ["C.npy", "csr.npz"])
def test_a_wide_guess_fits_in_the_smallest_limit(folder, file, cost):
    start = np.random.default_rng(1).standard_normal((17, 300))
    options = {"k": 12, "solver": "accelerated", "cost": cost, "tol": 1e-3, "compute_u": False, "start": start}
    assert len(fit(folder / file, memory_limit=smallest(folder / file, **options), max_passes=15, **options).s) == 12


# ---------------------------------------------------------------------------------------------- how files are read


def test_maps_are_read_into_buffers_under_a_limit(folder):
    X = np.load(folder / "C.npy", mmap_mode="r")
    assert isinstance(as_source(X), ArraySource)
    for given in (X, X[100:], np.asarray(X), folder / "C.npy", np.load(folder / "F.npy", mmap_mode="r")):
        assert isinstance(as_source(given, True), FileSource)


def test_maps_larger_than_half_of_the_memory_are_read_into_buffers(folder, monkeypatch):
    X = np.load(folder / "C.npy", mmap_mode="r")
    monkeypatch.setattr("vrpca.data.memory.physical_memory", lambda: 1.9 * X.nbytes)
    source = as_source(X)
    assert isinstance(source, FileSource) and source.slow_to_read


def test_maps_that_cannot_be_read_otherwise_count_whole(folder):
    changed = np.load(folder / "C.npy", mmap_mode="c")
    source = as_source(changed, True)
    assert isinstance(source, ArraySource) and source.held_bytes == changed.nbytes
    every_other = np.load(folder / "C.npy", mmap_mode="r")[:, ::2]
    assert as_source(every_other, True).held_bytes > every_other.nbytes


def test_archives_are_loaded_after_the_plan(folder):
    source = as_source(folder / "csr.npz", True)
    assert isinstance(source, UnloadedFile) and source.sparse
    loaded = as_source(folder / "csr.npz")
    assert (source.shape, source.dtype, source.entries) == (loaded.shape, loaded.dtype, loaded.entries)
    assert source.held_bytes >= loaded.X.data.nbytes + loaded.X.indices.nbytes + loaded.X.indptr.nbytes
    assert type(source.within(1 << 20)) is type(loaded)


def test_blocks_shrink_with_the_limit_and_a_source_stays_as_it_is(folder):
    source = as_source(folder / "C.npy", True)
    before = source.block_bytes
    plans = [make_plan(Options(memory_limit=limit), source, 2, False) for limit in ("1GB", "8MB")]
    assert plans[0].block_bytes == before > plans[1].block_bytes
    smaller = source.within(plans[1].block_bytes)
    assert source.block_bytes == before and len(smaller.block_starts()) > len(source.block_starts())
    for one in (source, smaller):
        assert np.vstack([X.copy() for _, X in one.blocks()]).tobytes() == np.load(folder / "C.npy").tobytes()


def test_a_plan_without_a_limit_keeps_to_half_of_the_memory_if_it_can(monkeypatch):
    source = as_source(np.ones((1000, 700)))
    full = make_plan(Options(solver="krylov"), source, 5, False)
    monkeypatch.setattr("vrpca.plan.physical_memory", lambda: 1.5 * full.need.bytes)
    smaller = make_plan(Options(solver="krylov"), source, 5, False)
    assert smaller.need.bytes <= 0.75 * full.need.bytes
    monkeypatch.setattr("vrpca.plan.physical_memory", lambda: 1.0)
    make_plan(Options(solver="krylov"), source, 5, False)  # nobody asked for a limit: the least that will do


# ------------------------------------------------------------------------------------------------ what is measured

CHILD = """
import json, sys, warnings
import numpy as np, vrpca
def memory(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
warnings.simplefilter("ignore")
path, options = json.loads(sys.argv[1])
before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
vrpca.pca(np.load(path, mmap_mode="r") if options.pop("mapped") else path, random_state=0, **options)
print(memory("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of 400 MB: all of its pages would count if it were mapped."""
    path, rows = tmp_path_factory.mktemp("large") / "X.npy", 50_000
    X = np.lib.format.open_memmap(path, "w+", np.float32, (10 * rows, 200))
    part = np.random.default_rng(0).random((rows, 200), dtype=np.float32)
    for start in range(0, len(X), rows):
        X[start : start + rows] = part
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize(("solver", "mapped"), [("krylov", True), ("power", False), ("gram", False)])
def test_the_peak_stays_within_the_limit_and_the_allowance(large, solver, mapped):
    """The file is larger than the limit and what is allowed beside it."""
    limit = 60 * 10**6
    options = {"k": 2, "solver": solver, "memory_limit": limit, "max_passes": 3, "compute_u": False, "mapped": mapped}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([str(large), options])], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < limit + 300 * 10**6
