"""Data that dask holds, on its local schedulers: answers as in memory; what is kept, made again, or refused."""

import itertools
import logging

import numpy as np
import pytest
import scipy.sparse as sp

import vrpca
from vrpca.data.open import as_source
from vrpca.errors import DataError, OptionError

dask = pytest.importorskip("dask", reason="dask is not installed: pip install 'vrpca[dask]'")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

from vrpca.data.cluster.engine import Graph, LocalEngine  # noqa: E402
from vrpca.data.cluster.source import tree  # noqa: E402
from vrpca.data.cluster.tasks import Recipe  # noqa: E402

N, D, K = 1200, 60, 3
WIDE = 300  # features where `auto` is not to take `gram`


def rows(n=N, d=D, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) / np.arange(1, d + 1) + 2).astype(dtype)


def counted(X, calls, number):
    """A chunk that notes when it is made."""
    calls.append(number)
    return X


def delayed_blocks(X, lengths, calls=None):
    cuts = np.cumsum([0, *lengths])
    make = dask.delayed(lambda number, part: counted(part, calls if calls is not None else [], number), pure=False)
    return [make(i, X[lo:hi]) for i, (lo, hi) in enumerate(itertools.pairwise(cuts))]


def same(model, other, rtol):
    np.testing.assert_allclose(model.singular_values_, other.singular_values_, rtol=rtol)
    np.testing.assert_allclose(np.abs((model.components_ * other.components_).sum(axis=1)), 1, rtol=rtol)
    if model.mean_ is not None:
        np.testing.assert_allclose(model.mean_, other.mean_, rtol=1e-6, atol=1e-9)


X = rows()
SPARSE = sp.random_array((N, D), density=0.2, format="csr", rng=0)
KINDS = {
    "array": lambda: (X, da.from_array(X, chunks=(250, D))),
    "single precision": lambda: (rows(dtype=np.float32), da.from_array(rows(dtype=np.float32), chunks=(250, D))),
    "integers": lambda: ((X * 100).astype(np.int16), da.from_array((X * 100).astype(np.int16), chunks=(250, D))),
    "unknown rows": lambda: (X[X[:, 0] > 1], (lambda Y: Y[Y[:, 0] > 1])(da.from_array(X, chunks=(250, D)))),
    "delayed": lambda: (X, delayed_blocks(X, [100, 1, 699, 400])),
    "delayed, with empty ones": lambda: (X, delayed_blocks(X, [0, 600, 0, 600])),
    "sparse, delayed": lambda: (SPARSE, [dask.delayed(SPARSE[i : i + 400]) for i in range(0, N, 400)]),
    "sparse array": lambda: (
        SPARSE,
        da.concatenate(
            [
                da.from_delayed(dask.delayed(sp.csr_matrix(SPARSE[i : i + 400])), (400, D), meta=sp.csr_matrix((0, 0)))
                for i in range(0, N, 400)
            ]
        ),
    ),
    "some chunks sparse": lambda: (X, [dask.delayed(X[:500]), dask.delayed(sp.csc_array(X[500:]))]),
    "frame": lambda: (frame(), dd.from_pandas(frame(), npartitions=5)),
    "frame with an empty partition": lambda: (frame(), empty_partition()),
}


def frame():
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(D)])


def empty_partition():
    parts = dd.from_pandas(frame(), npartitions=3)
    return dd.concat([parts, parts[parts["c0"] > 1e9]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["auto", "accelerated"])
def test_the_answer_is_that_of_the_data_in_memory(kind, solver):
    local, held = KINDS[kind]()
    options = {"solver": solver, "tol": 1e-10, "random_state": 0}
    same(vrpca.PCA(K, **options).fit(held), vrpca.PCA(K, **options).fit(local), 1e-5)


@pytest.mark.parametrize("solver", ["accelerated", "krylov", "power", "gram", "vr", "hybrid"])
@pytest.mark.parametrize("cost", ["time", "passes"])
def test_every_solver_gives_the_answer_that_it_gives_in_memory(solver, cost):
    options = {"solver": solver, "cost": cost, "tol": 1e-9, "random_state": 0}
    local, held = (vrpca.PCA(K, **options).fit(each) for each in (X, da.from_array(X, chunks=(250, D))))
    assert held.converged_ and held.certificate_.kind == local.certificate_.kind
    same(held, local, 1e-6)
    if solver not in ("vr", "hybrid"):  # those draw rows block after block
        assert held.n_passes_ == local.n_passes_


def test_weights_scales_and_left_vectors_travel_with_their_rows():
    weight = np.random.default_rng(1).random(N)
    options = {"scale": True, "sample_weight": weight, "solver": "krylov", "tol": 1e-12, "random_state": 0}
    local, held = (vrpca.pca(each, K, **options) for each in (X, da.from_array(X, chunks=(170, D))))
    np.testing.assert_allclose(held.s, local.s, rtol=1e-9)
    np.testing.assert_allclose(held.U, local.U, atol=1e-6)
    np.testing.assert_allclose(held.U.T @ held.U, np.eye(K), atol=1e-9)


@pytest.mark.parametrize("solver", ["accelerated", "gram"])
def test_bits_do_not_depend_on_threads_nor_on_the_order_of_arrival(solver):
    found = []
    for scheduler in ("synchronous", "threads", "threads"):
        with dask.config.set(scheduler=scheduler, num_workers=4):
            held = da.from_array(rows(d=WIDE), chunks=(100, WIDE))
            found.append(vrpca.PCA(K, solver=solver, cost="passes", random_state=0).fit(held).components_)
    assert (found[0] == found[1]).all() and (found[1] == found[2]).all()


def test_a_streamed_basis_is_merged_from_chunks():
    S = sp.random_array((2000, 800), density=0.02, format="csr", rng=1)
    blocks = [dask.delayed(S[i : i + 500]) for i in range(0, 2000, 500)]
    options = {"cost": "passes", "tol": 1e-8, "random_state": 0}
    local, held = (vrpca.TruncatedSVD(K, solver="accelerated", **options).fit(each) for each in (S, blocks))
    assert held.converged_
    same(held, local, 1e-4)
    assert held.n_passes_ <= local.n_passes_ + 1


def test_chunks_that_fit_are_made_once_and_the_choice_is_logged(caplog):
    calls = []
    with caplog.at_level(logging.INFO, "vrpca"), dask.config.set(scheduler="synchronous"):
        model = vrpca.PCA(K, solver="power", random_state=0).fit(delayed_blocks(X, [400] * 3, calls))
    assert model.n_passes_ >= 3 and calls.count(1) == 1
    assert "3 chunks of dask, 576 kB: kept in the memory of this machine" in caplog.text


def test_chunks_are_made_again_for_every_pass_where_memory_is_limited(caplog):
    calls = []
    with caplog.at_level(logging.INFO, "vrpca"), dask.config.set(scheduler="synchronous"):
        model = vrpca.PCA(K, solver="power", random_state=0, memory_limit="200MB")
        model.fit(delayed_blocks(X, [400] * 3, calls))
    assert calls.count(1) == model.n_passes_  # the look for the number of rows is a pass, too
    assert "made again by this machine in every pass" in caplog.text


def test_a_limit_that_has_no_room_for_chunks_is_refused():
    big = da.zeros((200_000, 100), chunks=(100_000, 100))
    with dask.config.set(num_workers=2), pytest.raises(OptionError, match="is too small"):
        vrpca.PCA(K, memory_limit="100MB").fit(big)


def test_columns_that_are_split_are_put_together_with_a_warning():
    with pytest.warns(UserWarning, match=r"split its columns into 3 parts.*X\.rechunk"):
        held = vrpca.PCA(K, random_state=0).fit(da.from_array(X, chunks=(250, D // 3)))
    same(held, vrpca.PCA(K, random_state=0).fit(X), 1e-9)


def test_transform_waits_until_it_is_computed():
    calls = []
    model = vrpca.PCA(K, whiten=True, random_state=0).fit(X)
    expected = model.transform(X)
    for held in (delayed_blocks(X, [500, 0, 700], calls), da.from_array(X, chunks=(250, 30)), KINDS["frame"]()[1]):
        if not isinstance(held, list):
            model = vrpca.PCA(K, whiten=True, random_state=0).fit(frame() if hasattr(held, "columns") else X)
        lazy = model.transform(held)
        assert isinstance(lazy, da.Array) and not calls
        np.testing.assert_allclose(lazy.compute(scheduler="synchronous"), expected, atol=1e-9)
        calls.clear()


def test_transform_checks_columns_before_it_waits():
    model = vrpca.PCA(K, random_state=0).fit(frame())
    with pytest.raises(ValueError, match="feature"):
        vrpca.PCA(K, random_state=0).fit(X).transform(da.from_array(X[:, :10], chunks=(250, 10)))
    with pytest.raises(DataError, match="column 0 is 'other', but was 'c0'"):
        model.transform(dd.from_pandas(frame().rename(columns={"c0": "other"}), npartitions=2))


def test_names_of_a_frame_are_noted():
    model = vrpca.PCA(K, random_state=0).fit(KINDS["frame"]()[1])
    assert list(model.feature_names_in_) == [f"c{j}" for j in range(D)]


def test_a_chunk_that_fails_once_does_no_harm(tmp_path):
    seen = tmp_path / "seen"

    def once(part):
        if not seen.exists():
            seen.touch()
            raise OSError("the disk is busy")
        return part

    blocks = [dask.delayed(X[:600]), dask.delayed(once)(X[600:])]
    same(vrpca.PCA(K, random_state=0).fit(blocks), vrpca.PCA(K, random_state=0).fit(X), 1e-9)


def test_a_chunk_that_always_fails_is_named():
    def never(part):
        raise OSError("the disk is gone")

    with pytest.raises(DataError, match=r"chunk 1 of X cannot be made \(OSError: the disk is gone\)"):
        vrpca.PCA(K).fit([dask.delayed(X[:600]), dask.delayed(never)(X[600:])])
    known = da.map_blocks(never, da.from_array(X, chunks=(300, D)), dtype=float, meta=np.zeros((0, 0)))
    with pytest.raises(DataError, match=r"chunk 0 \(rows 0 to 299\) of X cannot be made"):
        vrpca.PCA(K).fit(known)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: [dask.delayed(X), dask.delayed(X[:, :10])], "have 10 to 60 columns"),
        (lambda: [dask.delayed(X[:0])], "all of its chunks are empty"),
        (
            lambda: da.from_array(np.where(np.arange(N * D).reshape(N, D) == 70000, np.nan, X), chunks=(250, D)),
            "row 1166",
        ),
        (lambda: da.ones((3, 4, 5)), "Expected a 2D array"),
        (lambda: da.ones((30, 4), dtype=complex), "Complex"),
        (lambda: dd.from_pandas(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), npartitions=1), "Column 'a'"),
        (lambda: [dask.delayed("text")], "chunk 0 of X cannot be made .*it is a str, not an array"),
    ],
)
def test_bad_data_are_refused(bad, message):
    with pytest.raises(DataError, match=message):
        vrpca.PCA(2).fit(bad())


def test_a_chunk_that_changes_its_shape_is_refused():
    lengths = iter([600, 600, 599])
    source = as_source([dask.delayed(lambda: X[: next(lengths)], pure=False)()], limited=True)
    with dask.config.set(scheduler="synchronous"):
        assert len(list(source.blocks())) == 1
        with pytest.raises(DataError, match="every pass must give the same rows"):
            list(source.blocks())


def test_chunks_of_a_disjoint_graph_are_one_task_each():
    apart = as_source(da.random.random((100, 4), chunks=(10, 4)) + 1, limited=True)
    assert apart.chunks.base == {} and all(isinstance(ref, Recipe) for ref in apart.chunks.refs)
    total = da.from_array(X, chunks=(250, D))
    together = as_source(total - total.mean(axis=0), limited=True)
    assert together.chunks.base and not any(isinstance(ref, Recipe) for ref in together.chunks.refs)
    same(vrpca.PCA(K, center=False, random_state=0).fit(total - total.mean(axis=0)), vrpca.PCA(K).fit(X), 1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 100, 600])
def test_the_tree_merges_all_results_in_their_order(count):
    class Seen(list):
        def merge(self, other):
            self.extend(other)

    graph = Graph()
    keys = [graph.leaf(f"k-{i}", Seen, [i]) for i in range(count)]
    root = tree(graph, "t", keys, [None] * count)
    assert LocalEngine(dask.get).run(graph, root) == list(range(count))
    assert sum(map(len, graph.top.values())) < count


def test_a_pass_leaves_its_inputs_alone_so_that_tasks_may_run_twice():
    """A worker may merge again what it has merged before, if its result was lost."""
    from vrpca.data.cluster.tasks import merged

    class Number:
        def __init__(self, value):
            self.value = value

        def merge(self, other):
            self.value += other.value

    sums = [Number(1), Number(2)]
    assert [merged(*sums).value for _ in range(2)] == [3, 3]


def test_info_tells_without_reading():
    calls = []
    blocks = da.from_delayed(dask.delayed(lambda: counted(X, calls, 0))(), X.shape, X.dtype, meta=np.zeros((0, 0)))
    told = vrpca.info(blocks, K)
    assert not calls and told.reading == "1 chunks of dask, 576 kB: kept in the memory of this machine"


def test_a_checkpoint_of_dask_data_is_resumed_to_the_same_bits(tmp_path):
    held = da.from_array(rows(d=WIDE), chunks=(150, WIDE))
    options = {"solver": "krylov", "tol": 1e-12, "random_state": 0}
    whole = vrpca.PCA(K, **options).fit(held)
    stopped = vrpca.PCA(K, **options, checkpoint=tmp_path / "fit.npz", callback=lambda record: record.epoch == 2)
    with pytest.warns(UserWarning, match="suboptimality"):
        stopped.fit(held)
    resumed = vrpca.PCA(K, **options, checkpoint=tmp_path / "fit.npz").fit(held)
    assert (resumed.components_ == whole.components_).all() and resumed.n_passes_ == whole.n_passes_
