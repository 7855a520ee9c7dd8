"""The peers: each finds what LAPACK finds, on every kind of data that it takes, and its passes are counted."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from helpers import matrix_with_spectrum
from vrpca.experiments.bench import child
from vrpca.experiments.bench.peers import PEERS, Counter, Task, count, installed, operand, solve
from vrpca.experiments.shared.datasets import CENTRED, TO_CENTRE, UNCENTRED
from vrpca.experiments.shared.truth import leading_eigenvalues, suboptimality

SPECTRUM = 10 * 0.7 ** np.arange(30)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    X = matrix_with_spectrum(200, 30, SPECTRUM, rng)
    return (X - X.mean(axis=0)).astype(np.float32)


def task_of(X, center, k=3):
    return Task(X.shape, sp.issparse(X), center, k)


@pytest.mark.filterwarnings("ignore")  # peers warn
@pytest.mark.parametrize("center", [UNCENTRED, CENTRED, TO_CENTRE])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", PEERS)
def test_each_reaches_the_optimum(name, sparse, center, X):
    peer = PEERS[name]
    X = X if center == CENTRED else X + np.float32(0.5)
    X = sp.csr_matrix(X) if sparse else X
    task = task_of(X, center)
    if not installed(peer) or peer.cannot(task):
        return  # `test_who_cannot` checks which peers may be left out
    centred = center != UNCENTRED
    optimum = leading_eigenvalues(X, 3, centred)
    for setting in peer.ladder(task, [1e-3, 1e-6]):
        answer = solve(peer, X, task, setting, threads=1, seed=0)
        assert answer.Vt.shape == (3, 30)
        reached = suboptimality(X, answer.Vt.T, centred, optimum)
        if reached < 1e-6:
            break
    assert reached < 1e-6
    passes = answer.passes if answer.passes is not None else count(peer, X, task, setting, 0)
    assert passes is not None and passes >= 1


def test_who_cannot():
    dense, sparse = np.ones((100, 20)), sp.csr_matrix((100, 20))

    def absent(X, center):
        return {name for name, peer in PEERS.items() if peer.cannot(task_of(X, center))}

    pca = {name for name in PEERS if "PCA" in name and "fbpca" not in name}
    assert absent(dense, UNCENTRED) == pca - {"vrpca"}
    assert absent(dense, CENTRED) == set()
    assert absent(dense, TO_CENTRE) == {name for name in PEERS if "TruncatedSVD" in name}
    dense_only = {"scikit-learn-intelex PCA", "FAISS PCAMatrix"}
    assert absent(sparse, CENTRED) == {"sklearn PCA randomized", "dask svd_compressed", *dense_only}


def test_a_product_counts_once_whatever_its_width(X):
    counter = Counter(X)
    counter.matvec(np.ones(30))
    counter.rmatvec(np.ones(200))
    counter.matmat(np.ones((30, 7)))
    counter.rmatmat(np.ones((200, 7)))
    assert counter.products == 4


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_implicit_centring(X, kind, rng):
    Z, A = X - X.mean(axis=0), operand(kind(X + np.float32(2)), task_of(X, TO_CENTRE))
    V, U = rng.standard_normal((30, 2)).astype(np.float32), rng.standard_normal((200, 2)).astype(np.float32)
    for got, expected in (
        (A @ V, Z @ V),
        (A.H @ U, Z.T @ U),
        (A @ V[:, 0], Z @ V[:, 0]),
        (A.H @ U[:, 0], Z.T @ U[:, 0]),
    ):
        np.testing.assert_allclose(got, expected, atol=2e-4)


def test_a_setting_may_ask_for_double_precision(X):
    peer, task = PEERS["scipy svds propack"], task_of(X, CENTRED)
    setting = {"tol": 0.0, "maxiter": 30}
    single = solve(peer, X, task, setting, 1, 0)
    double = solve(peer, X, task, {**setting, "dtype": "float64"}, 1, 0)
    assert (single.Vt.dtype, double.Vt.dtype) == (np.float32, np.float64)
    exact = count(peer, X.astype(np.float64), task, setting, 0)
    assert count(peer, X, task, {**setting, "dtype": "float64"}, 0) == exact + 1


def job(tmp_path, X, peer, setting, **more):
    np.save(tmp_path / "X.npy", X)
    asked = {"peer": peer, "setting": setting, "path": str(tmp_path / "X.npy"), "center": CENTRED, "sparse": False}
    asked |= {"k": 2, "threads": 1, "repeats": 2, "seed": 0, "eigenvalues": leading_eigenvalues(X, 2, True).tolist()}
    return asked | more


def reports(monkeypatch, capsys, asked):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(asked)))
    child.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_child_reports_everything(tmp_path, X, monkeypatch, capsys):
    asked = job(tmp_path, X, "vrpca", {"solver": "power", "tol": 1e-6})
    (found,) = reports(monkeypatch, capsys, asked)
    assert found["status"] == "ok" and len(found["times"]) >= 2 and found["seconds"] == min(found["times"])
    assert -1e-14 < found["truth"] <= found["certificate"] <= 1e-6 and found["converged"]
    assert found["memory"] > 0 and found["passes"] == found["history"][-1][0]


def test_repeats():
    """As many as asked for, more of short runs, fewer of long ones."""

    def runs(seconds, repeats):
        times = []
        while child._again(times, repeats):
            times.append(seconds)
        return len(times)

    assert [runs(seconds, 3) for seconds in (0.001, 0.125, 0.5, 5.0, 12.0, 30.0)] == [50, 8, 3, 3, 2, 1]
    assert runs(0.001, 1) == 1 and runs(0.001, 60) == 60


def test_a_child_counts_after_it_has_reported(tmp_path, X, monkeypatch, capsys):
    first, second = reports(monkeypatch, capsys, job(tmp_path, X, "scipy svds arpack", {"tol": 0.0}))
    assert first["passes"] is None and second["passes"] > 10 and second["truth"] == first["truth"] < 1e-10


@pytest.mark.parametrize("setting", [{"n_iter": -1}, {"colour": "red"}])
def test_a_child_reports_what_a_peer_raises(tmp_path, X, monkeypatch, capsys, setting):
    (found,) = reports(monkeypatch, capsys, job(tmp_path, X, "sklearn TruncatedSVD randomized", setting))
    assert found["status"] == "error" and "Error" in found["message"]


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux says how much memory is free")
def test_a_child_cannot_take_more_memory_than_there_is():
    code = (
        "import resource, numpy as np; from vrpca.experiments.bench.child import limit_memory; limit_memory()\n"
        "free, _ = resource.getrlimit(resource.RLIMIT_DATA); np.empty(free // 2, np.uint8)\n"
        "try: np.empty(free, np.uint8)\n"
        "except MemoryError: print('refused')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "refused\n"
