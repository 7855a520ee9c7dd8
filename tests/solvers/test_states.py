"""Solvers have no state, states are values, and a step lets go of what it has used."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from solvers.problems import NOTHING_FOUND, small_counts, view_of, with_eigenvalues
from vrpca.data.view import View
from vrpca.options import Options
from vrpca.plan import make_solver
from vrpca.solvers import SOLVERS
from vrpca.solvers.accelerated import Narrow, Sampled, Streamed, Wide
from vrpca.solvers.base import Solver
from vrpca.solvers.deflation import Deflation
from vrpca.solvers.snapshot import LightSnapshot, Snapshot
from vrpca.solvers.vr import VR
from vrpca.solvers.vr_block import BlockVR, LiteralBlockVR

DENSE = with_eigenvalues(1200, 40, 0.9 ** np.arange(40))
SPARSE = sp.csr_array(small_counts(300, 60, seed=3))

# The data, the solver's name, the width, options, and the class that is made of them.
CASES = {
    "vr": (DENSE, "vr", 1, {}, VR),
    "vr, by norm": (DENSE, "vr", 1, {"sampling": "norm"}, VR),
    "vr, block": (DENSE, "vr", 4, {}, BlockVR),
    "vr, sparse block": (SPARSE, "vr", 4, {}, BlockVR),
    "vr, difference": (DENSE, "vr", 3, {"control": "difference"}, LiteralBlockVR),
    "deflation": (DENSE, "vr", 3, {"deflate": True}, Deflation),
    "oja": (DENSE, "oja", 3, {}, SOLVERS["oja"]),
    "power": (DENSE, "power", 3, {}, SOLVERS["power"]),
    "hybrid": (DENSE, "hybrid", 1, {}, SOLVERS["hybrid"]),
    "hybrid, block": (DENSE, "hybrid", 3, {}, SOLVERS["hybrid"]),
    "krylov": (DENSE, "krylov", 2, {}, SOLVERS["krylov"]),
    "sampled": (np.repeat(DENSE, 34, axis=0), "accelerated", 2, {}, Sampled),
    "wide": (DENSE, "accelerated", 2, {"cost": "passes"}, Wide),
    "streamed": (SPARSE, "accelerated", 2, {"cost": "passes"}, Streamed),
    "narrow": (SPARSE, "accelerated", 2, {}, Narrow),
    "gram": (DENSE.astype(np.float32), "gram", 3, {}, SOLVERS["gram"]),
}
SNAPSHOTS = [name for name, case in CASES.items() if case[1] in ("vr", "oja", "power", "hybrid")]


def made(name):
    """A view, and a solver for it."""
    X, solver, width, options, kind = CASES[name]
    view = view_of(X)
    found = make_solver(solver, Options(**options), width, view.source.entries, view.d, view.source.sparse)
    assert type(found) is kind
    return view, found


def begun(view, solver, seed):
    rng = np.random.default_rng(seed)
    return solver.start(view, NOTHING_FOUND, rng), rng


def marks(state):
    """What tells two states apart, as bytes."""
    parts = [np.ascontiguousarray(state.vectors()), state.theta, state.G, np.array([state.mu, state.step.size])]
    return [part.tobytes() for part in parts]


def settings(solver):
    """A solver's attributes; those of a solver within it are listed, too."""
    return {name: settings(value) if isinstance(value, Solver) else value for name, value in vars(solver).items()}


def test_every_solver_has_a_case():
    assert {case[1] for case in CASES.values()} == set(SOLVERS)


def test_a_solver_has_ten_members():
    """Another one would have to be known by everybody who writes a solver."""
    public = {name for name in vars(Solver) if not name.startswith("_")}
    methods = {"width_for", "transposes", "wants", "passes", "start", "step", "memory", "smaller"}
    assert public <= methods | {"projects", "components"}


@pytest.mark.parametrize("name", CASES)
def test_solvers_add_nothing_that_a_run_would_have_to_know(name):
    """The arguments of the six are those of the contract, whoever overrides them."""
    _, solver = made(name)
    for member in ("width_for", "transposes", "wants", "passes", "start", "step"):
        wanted, found = (inspect.signature(getattr(owner, member)) for owner in (Solver, type(solver)))
        assert list(found.parameters) == list(wanted.parameters), member


@pytest.mark.parametrize("name", CASES)
def test_variants_agree_on_the_width_and_the_side(name):
    """A plan asks the class that is registered, before it is known which variant will be made."""
    registered, variant = SOLVERS[CASES[name][1]], CASES[name][-1]
    assert variant.width_for is registered.width_for and variant.transposes is registered.transposes


@pytest.mark.parametrize("name", CASES)
def test_two_interleaved_runs_of_one_solver_are_two_runs(name):
    view, solver = made(name)
    pairs = [begun(view, solver, seed) for seed in (1, 2)]
    together = [[marks(state)] for state, _ in pairs]
    for _ in range(3):
        for run in (1, 0):
            state, rng = pairs[run]
            if state.steps_left != 0:
                pairs[run] = (solver.step(view, state, rng), rng)
            together[run].append(marks(pairs[run][0]))
    for run, seed in enumerate((1, 2)):
        view, solver = made(name)
        state, rng = begun(view, solver, seed)
        apart = [marks(state)]
        for _ in range(3):
            state = solver.step(view, state, rng) if state.steps_left != 0 else state
            apart.append(marks(state))
        assert apart == together[run]
    assert name == "gram" or together[0] != together[1]  # seeds differ


@pytest.mark.parametrize("name", CASES)
def test_a_run_leaves_the_solver_as_it_was(name):
    view, solver = made(name)
    before = copy.deepcopy(settings(solver))
    state, rng = begun(view, solver, 0)
    assert settings(solver) == before
    for _ in range(2):
        state = solver.step(view, state, rng)
        assert settings(solver) == before


@pytest.mark.parametrize("name", CASES)
def test_a_state_cannot_be_changed(name):
    view, solver = made(name)
    state, _ = begun(view, solver, 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.theta = None


@pytest.mark.parametrize("name", CASES)
def test_a_state_that_was_pickled_goes_on_as_it_would_have(name):
    view, solver = made(name)
    state, rng = begun(view, solver, 0)
    state = solver.step(view, state, rng)
    twin, twins_rng = pickle.loads(pickle.dumps((state, rng)))
    assert type(twin) is type(state) and marks(twin) == marks(state)
    if state.steps_left != 0:
        assert marks(solver.step(view, twin, twins_rng)) == marks(solver.step(view, state, rng))


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_light_snapshot_lacks_the_large_parts(name):
    view, solver = made(name)
    state, _ = begun(view, solver, 0)
    light = state.light()
    assert type(state) is Snapshot and type(light) is LightSnapshot
    assert light.P is None and not hasattr(light, "U") and marks(light) == marks(state)
    assert (
        light.vectors() is state.vectors()
        and light.probe is state.probe
        and light.step == state.step
        and light.tol == state.tol
    )


# --------------------------------------------------------------------------------------------------------------- memory


def owner(array):
    """The array that holds the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Watched:
    """Products of a view, during which it is noted which of some arrays are still there."""

    def __init__(self, monkeypatch):
        self.arrays, self.seen = {}, []
        product = View.product

        def watched(view, W, P=None, out=None):
            if self.arrays:
                self.seen.append({name for name, reference in self.arrays.items() if reference() is not None})
                self.arrays = {}
            return product(view, W, P, out)

        monkeypatch.setattr(View, "product", watched)

    def watch(self, state):
        """Note at the next product whether W, U and P of a snapshot are still there."""
        self.arrays = {name: weakref.ref(owner(getattr(state, name))) for name in ("W", "U", "P")}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_step_frees_u_and_p_before_it_makes_the_next_ones(name, monkeypatch):
    """At the product there are never two of them. Power iteration orthonormalises U in place: it becomes W."""
    view, solver = made(name)
    watched = Watched(monkeypatch)
    first, rng = begun(view, solver, 0)
    handed_over = [first]
    del first
    for _ in range(3):
        watched.watch(handed_over[0])
        handed_over.append(solver.step(view, handed_over.pop(), rng))
    assert watched.seen == [{"U"} if name == "power" else set()] * 3


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_run_keeps_no_more_than_w_of_the_best_state(name, monkeypatch):
    """The same in a whole fit: the loop has let go of the state, too."""
    X, solver, k, options, _ = CASES[name]
    watched = Watched(monkeypatch)
    snapshots = []
    create = Snapshot.__init__

    def noted(snapshot, **fields):
        create(snapshot, **fields)
        snapshots.append(1)
        watched.watch(snapshot)

    monkeypatch.setattr(Snapshot, "__init__", noted)
    with pytest.warns(match="component"):
        vrpca.svd(X, k, solver=solver, oversample=0, max_passes=9, tol=0, random_state=0, compute_u=False, **options)
    assert len(snapshots) >= 3 and len(watched.seen) == len(snapshots) - 1
    allowed = {"W", "U"} if name == "power" else {"W"}
    assert all(seen <= allowed for seen in watched.seen)


def test_an_array_that_is_kept_would_be_seen(monkeypatch):
    """The tests above can fail."""
    view, solver = made("vr, block")
    watched = Watched(monkeypatch)
    state, rng = begun(view, solver, 0)
    kept = state.P
    watched.watch(state)
    solver.step(view, state, rng)  # this frame holds the state
    assert watched.seen == [{"W", "U", "P"}] and kept is not None
