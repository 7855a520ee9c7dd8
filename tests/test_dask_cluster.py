"""Fits on a cluster of dask: the same answers, faults, Ctrl-C, bytes on the wire, the command line."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import vrpca
import vrpca.checkpoint
from vrpca.errors import ClusterError, DataError

dask = pytest.importorskip("dask", reason="dask is not installed: pip install 'vrpca[dask]'")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install 'vrpca[dask]'")
da = pytest.importorskip("dask.array")

# What clusters leave behind when they end is no fault of ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # Older versions of dask warn of what some tests are about.
    pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler:UserWarning"),
]

N, D, K, CHUNKS = 1600, 300, 3, 8
OPTIONS = {"tol": 1e-9, "random_state": 0}


def chunk(number, folder=None, fault=None, every_time=False):
    """Rows of a chunk. A fault happens at the first time that the chunk is made, or every time."""
    if fault is not None:
        first = Path(folder, f"{fault}-{number}")
        if every_time or not first.exists():
            first.touch()
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the disk is gone")
    time.sleep(0.01)
    rng = np.random.default_rng(number)
    return rng.standard_normal((N // CHUNKS, D)) / np.arange(1, D + 1) + 2


X = np.vstack([chunk(number) for number in range(CHUNKS)])


def held(folder=None, fault=None, at=5, every_time=False):
    """The same rows as a dask array whose chunks are made by `chunk`."""
    make = dask.delayed(chunk, pure=False)
    blocks = [make(number, folder, fault if number == at else None, every_time) for number in range(CHUNKS)]
    return da.concatenate([da.from_delayed(each, (N // CHUNKS, D), float) for each in blocks])


@pytest.fixture(scope="module")
def local():
    """The answers in memory."""
    found = {}

    def answer(solver):
        if solver not in found:
            found[solver] = vrpca.PCA(K, solver=solver, cost="passes", **OPTIONS).fit(X)
        return found[solver]

    return answer


@pytest.fixture(scope="module")
def cluster():
    patience = {"distributed.scheduler.allowed-failures": 1, "distributed.deploy.lost-worker-timeout": "10m"}
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        dask.config.set(patience),
        suppress(KeyError),  # at its end, a LocalCluster may miss the entry of a worker that was killed as it joined
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    """A client of a cluster of two workers: those that the last test has killed are back."""
    cluster.wait_for_workers(2, timeout=120)
    return cluster


def same(model, other):
    assert model.converged_
    np.testing.assert_allclose(model.singular_values_, other.singular_values_, rtol=1e-8)
    np.testing.assert_allclose(np.abs((model.components_ * other.components_).sum(axis=1)), 1, rtol=1e-8)


@pytest.mark.parametrize("solver", ["accelerated", "krylov", "power", "gram"])
@pytest.mark.parametrize("limit", [None, "400MB"])
def test_the_answer_is_that_of_the_data_in_memory(client, local, solver, limit):
    model = vrpca.PCA(K, solver=solver, memory_limit=limit, **OPTIONS).fit(held())
    same(model, local(solver))
    assert model.n_passes_ <= local(solver).n_passes_ + 1
    assert model.certificate_.kind == local(solver).certificate_.kind


def test_bits_are_those_of_the_local_scheduler_with_the_same_chunks(client):
    on_cluster = [vrpca.PCA(K, cost="passes", **OPTIONS).fit(held()).components_ for _ in range(2)]
    with dask.config.set(scheduler="synchronous"):
        here = vrpca.PCA(K, cost="passes", **OPTIONS).fit(held()).components_
    assert (on_cluster[0] == on_cluster[1]).all() and (on_cluster[0] == here).all()


def test_few_rounds_are_the_default(client):
    assert "passes are to be saved" in vrpca.PCA(K, **OPTIONS).fit(held()).solver_reason_


def test_data_that_the_user_has_persisted_are_used_where_they_are(client, local):
    same(vrpca.PCA(K, **OPTIONS).fit(held().persist()), local("accelerated"))


def test_weights_and_left_vectors(client):
    weight = np.random.default_rng(1).random(N)
    options = {"sample_weight": weight, "solver": "krylov", **OPTIONS}
    here, there = vrpca.pca(X, K, **options), vrpca.pca(held(), K, **options)
    np.testing.assert_allclose(there.s, here.s, rtol=1e-8)
    np.testing.assert_allclose(np.abs((there.U * here.U).sum(axis=0)), 1, rtol=1e-8)


def test_transform_runs_on_the_cluster(client, local):
    scores = local("krylov").transform(held())
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), local("krylov").transform(X), atol=1e-9)


@pytest.mark.parametrize("limit", [None, "400MB"])
def test_a_worker_that_is_killed_in_the_middle_of_a_pass_does_no_harm(client, local, tmp_path, limit):
    model = vrpca.PCA(K, solver="krylov", memory_limit=limit, **OPTIONS).fit(held(tmp_path, "kill"))
    assert (tmp_path / "kill-5").exists()
    same(model, local("krylov"))


@pytest.mark.parametrize("limit", [None, "400MB"])
def test_chunks_of_a_worker_that_is_killed_between_passes_are_made_again(client, local, limit):
    killed = []

    def kill(record):
        if record.epoch == 1:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    model = vrpca.PCA(K, solver="krylov", memory_limit=limit, callback=kill, **OPTIONS).fit(held())
    assert killed
    same(model, local("krylov"))
    client.wait_for_workers(2)


def test_a_worker_may_join_late(client, local):
    def join(record):
        if record.epoch == 1:
            client.cluster.scale(3)
            client.wait_for_workers(3)

    model = vrpca.PCA(K, solver="krylov", memory_limit="400MB", callback=join, **OPTIONS).fit(held())
    same(model, local("krylov"))
    client.cluster.scale(2)


def test_a_chunk_that_raises_once_does_no_harm(client, local, tmp_path):
    same(vrpca.PCA(K, solver="krylov", **OPTIONS).fit(held(tmp_path, "raise")), local("krylov"))
    assert (tmp_path / "raise-5").exists()


def test_a_chunk_that_always_raises_is_named(client, tmp_path):
    with pytest.raises(DataError, match=r"chunk 5 \(rows 1000 to 1199\).*OSError: the disk is gone"):
        vrpca.PCA(K, **OPTIONS).fit(held(tmp_path, "raise", every_time=True))


def test_a_chunk_that_always_kills_its_worker_is_named(client, tmp_path):
    with pytest.raises(DataError, match=r"workers died at work on chunk \d \(rows"):
        vrpca.PCA(K, memory_limit="400MB", **OPTIONS).fit(held(tmp_path, "kill", every_time=True))
    client.wait_for_workers(2)


@pytest.fixture
def ctrl_c():
    """Let SIGINT raise KeyboardInterrupt: shells start background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_the_futures_and_keeps_the_best_answer(client, tmp_path):
    def press():
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    make = dask.delayed(lambda number: (time.sleep(0.2), chunk(number))[1], pure=False)
    blocks = [da.from_delayed(make(number), (N // CHUNKS, D), float) for number in range(CHUNKS)]
    options = {"memory_limit": "400MB", "checkpoint": tmp_path / "fit.npz"}
    model = vrpca.PCA(K, solver="power", tol=1e-15, random_state=0, callback=lambda record: press(), **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(da.concatenate(blocks))
    assert model.status_ is vrpca.Status.INTERRUPTED and (tmp_path / "fit.npz").exists()
    deadline = time.monotonic() + 10
    while client.processing() and any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())


def test_bytes_on_the_wire_of_a_pass(client):
    """Each worker gets W and sends its sum: 2 d l numbers. Keys and the scheduler's messages are small beside it."""
    from vrpca.data.open import as_source
    from vrpca.data.row_map import RowMap
    from vrpca.data.view import KernelRows, ProductSum

    def sent():
        return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())

    d, l = 4000, 40
    source = as_source(da.random.default_rng(0).standard_normal((800, d), chunks=(100, d)))
    W = np.random.default_rng(0).standard_normal((d, l))
    source.reduce(ProductSum(KernelRows(RowMap(np.dtype(float))), W, 1))
    before = sent()
    source.reduce(ProductSum(KernelRows(RowMap(np.dtype(float))), W, 1))
    by_workers = sent() - before  # W to the second worker, a sum to the first, the result to the process of the fit
    # About 2 d l numbers per worker; one W for each chunk would be 8 of them, and a sum of each chunk as many again.
    assert W.nbytes <= by_workers <= 5 * W.nbytes


def test_a_lost_scheduler_is_named_and_the_checkpoint_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(vrpca.checkpoint, "EVERY", 0.0)
    monkeypatch.setattr(vrpca.checkpoint, "SHARE", 1e9)
    file = tmp_path / "scheduler.json"
    run = [sys.executable, "-m"]
    common = ["--no-dashboard", "--scheduler-file", str(file)]
    here = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}  # workers import `chunk` from this file
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": here}
    scheduler = subprocess.Popen([*run, "distributed.cli.dask_scheduler", "--port", "0", *common], **quiet)
    worker = subprocess.Popen([*run, "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *common], **quiet)

    def lose(record):
        if record.epoch == 2:
            scheduler.kill()
            scheduler.wait()

    options = {"solver": "power", "checkpoint": tmp_path / "fit.npz", **OPTIONS}
    try:
        while not file.exists():
            time.sleep(0.05)
        with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
            client = distributed.Client(scheduler_file=str(file))
            client.wait_for_workers(1)
            lost = pytest.raises(ClusterError, match=r"The scheduler at tcp://\S+ is lost.*checkpoint")
            with client.as_current(), lost:
                vrpca.PCA(K, callback=lose, **options).fit(held())
            client.close(timeout=1)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert (tmp_path / "fit.npz").exists()
    with dask.config.set(scheduler="synchronous"):
        resumed = vrpca.PCA(K, cost="passes", **options).fit(held())
        whole = vrpca.PCA(K, cost="passes", **options | {"checkpoint": None}).fit(held())
    assert (resumed.components_ == whole.components_).all()


def test_the_command_line_starts_a_cluster(tmp_path):
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-m", "vrpca", "fit", "x.npy", "-k", "3", "--out", "m.npz", "--workers", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "kept in the memory of 1 workers" in done.stderr
    same(vrpca.load(tmp_path / "m.npz"), vrpca.PCA(K, **OPTIONS).fit(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "0"], "--workers 0 must be at least 1"),
        (["--workers", "1", "--scheduler", "tcp://x:1"], "exclude each other"),
    ],
)
def test_the_command_line_refuses(tmp_path, options, message):
    from vrpca.cli.app import run

    np.save(tmp_path / "x.npy", X)
    assert run(["fit", str(tmp_path / "x.npy"), "-k", "2", *options]) == 2
