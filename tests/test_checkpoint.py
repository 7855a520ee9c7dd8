"""Checkpoints: a fit that was cut short goes on to the same bits, and a file that does not belong to it is refused."""

from __future__ import annotations

import errno
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import vrpca
import vrpca.checkpoint as checkpoints
from solvers.test_bad_steps import diverging
from vrpca import DataError, OptionError, Status
from vrpca.checkpoint import Checkpoint
from vrpca.cli import run
from vrpca.data.first_pass import Problem
from vrpca.serialise import Packer, Unpacker
from vrpca.solvers.base import State

RNG = np.random.default_rng(0)
DENSE = RNG.standard_normal((1200, 40)) * 0.9 ** np.arange(40) + RNG.standard_normal(40)
LONG = RNG.standard_normal((1600, 12)) * 0.8 ** np.arange(12)  # many rows per column: accelerated starts from a sample
SPARSE = sp.random_array((300, 120), density=0.05, rng=RNG, format="csr")
DATA = {"dense": DENSE, "sparse": SPARSE}
FILLED = {"dense": LONG, "sparse": sp.csr_array(LONG * (RNG.random(LONG.shape) < 0.9))}
CLOSE = RNG.standard_normal((1200, 60)).astype(np.float32)  # eigenvalues close to each other

CASES = {
    "vr": (DATA, 1, {"solver": "vr"}),
    "vr, block": (DATA, 3, {"solver": "vr"}),
    "vr, difference": (DATA, 2, {"solver": "vr", "control": "difference"}),
    "vr, by norms": (DATA, 2, {"solver": "vr", "sampling": "norm"}),
    "deflation": (DATA, 2, {"solver": "vr", "deflate": True}),
    "oja": (DATA, 2, {"solver": "oja"}),
    "hybrid": (DATA, 2, {"solver": "hybrid"}),
    "power": (DATA, 2, {"solver": "power"}),
    "krylov": (DATA, 2, {"solver": "krylov", "oversample": 1}),
    "accelerated, sampled": (FILLED, 1, {"solver": "accelerated", "oversample": 1}),
    "accelerated, streamed": (DATA, 1, {"solver": "accelerated", "cost": "passes", "oversample": 1}),
    "accelerated, narrow": ({"dense": DENSE[:300], "sparse": SPARSE}, 2, {"solver": "accelerated", "oversample": 1}),
    "gram": (DATA, 2, {"solver": "gram"}),
}
FITS = {
    "restarts": (DENSE, 2, {"solver": "krylov", "restarts": 3, "max_passes": 40}),
    "restarts of vr from a guess": (DENSE, 2, {"solver": "vr", "restarts": 2, "start": np.eye(40)[:2]}),
    "a fraction": (LONG, 0.97, {"solver": "krylov", "tol": 1e-4}),
    "a fraction by gram": (DENSE, 0.9, {"solver": "gram"}),
    "a proof": (DENSE, 2, {"solver": "krylov", "tol": 1e-4, "certificate": "probabilistic", "max_passes": 60}),
    "a wide matrix": (SPARSE.T.tocsr()[:, :60], 2, {"solver": "krylov"}),
    "columns": (np.asfortranarray(DENSE), 2, {"solver": "krylov"}),
    "weights and scales": (DENSE, 2, {"solver": "krylov", "scale": True, "sample_weight": np.arange(1200.0)}),
    "rounding that is measured": (CLOSE, 3, {"solver": "gram", "tol": 1e-10}),
    "another generator": (DENSE, 2, {"solver": "vr", "random_state": "MT19937"}),
}


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch):
    """Write at every occasion, and do not wait for the disk."""
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)
    monkeypatch.setattr(os, "fsync", lambda number: None)


@pytest.fixture
def copies(monkeypatch, tmp_path):
    """A list that receives a copy of every checkpoint that is written."""
    found, write = [], Checkpoint._write

    def copied(self, *content):
        write(self, *content)
        found.append(tmp_path / f"copy{len(found)}.npz")
        shutil.copy(self.path, found[-1])

    monkeypatch.setattr(Checkpoint, "_write", copied)
    return found


def pca(X, k, **options):
    options = {"tol": 1e-12, "max_passes": 7, "random_state": 0, "n_threads": 1, **options}
    if options["random_state"] == "MT19937":
        options["random_state"] = np.random.Generator(np.random.MT19937(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return vrpca.pca(X, k, **options)


def numbers(found):
    """All that a fit gives, as bits; but for the seconds."""
    arrays = [found.s, found.Vt, found.U, found.mean, found.scale, found.certificate.residuals]
    records = [{**record.asdict(), "seconds": 0} for record in found.history]
    bound = (found.certificate.suboptimality, found.certificate.mu, found.certificate.ceiling)
    bits = [None if array is None else array.tobytes() for array in arrays]
    return bits, records, bound, found.status, found.n_passes, found.solver


def check_resumed(X, k, options, copies, path):
    """A fit that writes, and one that goes on from each of its checkpoints, give what a fit without any gives."""
    unbroken = pca(X, k, **options)
    assert numbers(pca(X, k, checkpoint=path, **options)) == numbers(unbroken)
    written = list(copies)
    assert len(written) >= 2
    for copy in {*written[:2], *written[2:-1:3], written[-1]}:
        assert numbers(pca(X, k, checkpoint=copy, **options)) == numbers(unbroken)
    assert path.exists() == (unbroken.status in (Status.PASSES, Status.STOPPED))
    assert not list(path.parent.glob(".vrpca*"))
    return unbroken


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", CASES)
def test_same_bits_from_every_checkpoint(name, form, dtype, copies, tmp_path):
    data, k, options = CASES[name]
    check_resumed(data[form].astype(dtype), k, options, copies, tmp_path / "fit.npz")


@pytest.mark.parametrize("name", FITS)
def test_fits_of_several_parts(name, copies, tmp_path):
    X, k, options = FITS[name]
    check_resumed(X, k, options, copies, tmp_path / "fit.npz")


def test_steps_that_are_taken_back(copies, tmp_path):
    """The paper's step is too long for rows like these: the best state has to be taken again."""
    options = {"solver": "vr", "max_passes": 20, "center": False}
    found = check_resumed(diverging(), 1, options, copies, tmp_path / "fit.npz")
    assert any("half the step" in record.event for record in found.history)


def test_the_switch_of_auto(copies, tmp_path, monkeypatch):
    monkeypatch.setattr("vrpca.small.suits", lambda source: False)
    monkeypatch.setattr("vrpca.plan.choose", lambda task: ("accelerated", "a test"))
    monkeypatch.setattr("vrpca.run.too_slow", lambda task, history, last_call: len(history) >= 3)
    found = check_resumed(DENSE, 3, {"max_passes": 30}, copies, tmp_path / "fit.npz")
    assert found.solver == "gram" and len(found.history) > 3


def test_a_proof_that_finds_something(copies, tmp_path):
    """The start hides the leading direction. The random search finds it, and another run takes it in."""
    X = np.diag(np.r_[5.0, 3.0, 2.0, np.full(37, 0.1)])
    options = {"solver": "power", "oversample": 0, "start": np.eye(40)[1:3], "tol": 1e-6, "max_passes": 400}
    options |= {"certificate": "probabilistic", "center": False}
    found = check_resumed(X, 2, options, copies, tmp_path / "fit.npz")
    assert [record.epoch for record in found.history].count(0) == 2


@pytest.mark.parametrize("name", ["vr, block", "krylov", "accelerated, narrow", "accelerated, sampled"])
@pytest.mark.parametrize("epoch", [0, 2])
def test_after_ctrl_c(name, epoch, tmp_path, monkeypatch):
    """Written at Ctrl-C although nothing else is ever due."""
    monkeypatch.setattr(checkpoints, "EVERY", np.inf)
    path, (data, k, options) = tmp_path / "fit.npz", CASES[name]

    def interrupt(record):
        if record.epoch == epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pca(data["dense"], k, checkpoint=path, callback=interrupt, **options)
    records = []
    found = pca(data["dense"], k, checkpoint=path, callback=records.append, **options)
    assert numbers(found) == numbers(pca(data["dense"], k, **options))
    assert [record.epoch for record in records] == list(range(epoch + 1, found.history[-1].epoch + 1))


def test_ctrl_c_within_the_first_product_keeps_the_first_pass(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "EVERY", np.inf)
        patch.setattr("vrpca.data.view.View.product", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pca(DENSE, 2, solver="krylov", checkpoint=path)
    unbroken = pca(DENSE, 2, solver="krylov")
    monkeypatch.setattr(Problem, "first_pass", None)  # it is not called
    assert numbers(pca(DENSE, 2, solver="krylov", checkpoint=path)) == numbers(unbroken)


def test_more_passes_on_resuming(tmp_path):
    """A fit that ran out of passes goes on when it gets more, as if it had had them from the beginning."""
    path, options = tmp_path / "fit.npz", {"solver": "power", "checkpoint": tmp_path / "fit.npz"}
    for passes in (4, 4, 9):
        found = pca(DENSE, 2, max_passes=passes, **options)
        assert found.status is Status.PASSES and path.exists()
        assert numbers(found) == numbers(pca(DENSE, 2, solver="power", max_passes=passes))


def test_seconds_of_all_processes_count(tmp_path):
    path = tmp_path / "fit.npz"
    first = pca(DENSE, 2, solver="oja", tol=0.0, max_passes=1e6, max_seconds=0.3, checkpoint=path)
    again = pca(DENSE, 2, solver="oja", tol=0.0, max_passes=1e6, max_seconds=0.3, checkpoint=path)
    assert first.status is again.status is Status.SECONDS
    assert again.history[-1].epoch == first.history[-1].epoch
    more = pca(DENSE, 2, solver="oja", tol=0.0, max_passes=1e6, max_seconds=0.6, checkpoint=path)
    assert more.history[-1].epoch > first.history[-1].epoch and more.history[-1].seconds > 0.3


# ------------------------------------------------------------------------------------------------------------- refused


def cut_short(path, X=DENSE, **options):
    pca(X, 2, checkpoint=path, **{"solver": "power", "max_passes": 4, **options})
    assert path.exists()


CHANGES = {
    "tol was 1e-12, now 1e-06": {"tol": 1e-6},
    "random_state was 0, now 1": {"random_state": 1},
    "solver was 'power', now 'krylov'": {"solver": "krylov"},
    "n_threads was 1, now 2": {"n_threads": 2},
    "n_components was 2, now 3": {"k": 3},
    "center was True, now False": {"center": False},
    "sample_weight is not the same": {"sample_weight": np.ones(1200)},
    r"the shape of X was '\(1200, 40\)', now '\(1200, 39\)'": {"X": DENSE[:, :39]},
    "the type of X was 'float64', now 'float32'": {"X": DENSE.astype(np.float32)},
    "X has other numbers": {"X": DENSE * (1 + 1e-6)},
    "columnwise storage of X was False, now True": {"X": np.asfortranarray(DENSE)},
}


@pytest.mark.parametrize("what", CHANGES)
def test_other_data_or_options(what, tmp_path):
    path = tmp_path / "fit.npz"
    cut_short(path)
    before = path.read_bytes()
    given = {"solver": "power", "X": DENSE, "k": 2, **CHANGES[what]}
    with pytest.raises(DataError, match=f"the checkpoint of another fit.*{what}.*Remove it"):
        pca(checkpoint=path, **given)
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", range(12))
def test_damaged_files(seed, tmp_path):
    path, rng = tmp_path / "fit.npz", np.random.default_rng(seed)
    cut_short(path)
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        headers = [info.header_offset for info in archive.infolist()]
    where = int(rng.integers(len(whole)))
    while any(header <= where < header + 64 for header in headers):  # nobody reads these: the directory says the same
        where = int(rng.integers(len(whole)))
    damaged = whole[:where]
    if seed % 2:
        damaged = whole.copy()
        damaged[where : where + 8] = rng.integers(0, 256, len(damaged[where : where + 8]), np.uint8).tobytes()
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=rf"{path}.*Remove it"):
        pca(DENSE, 2, solver="power", max_passes=4, checkpoint=path)
    assert path.read_bytes() == damaged


def rewritten(path, change):
    """Change the metadata of a checkpoint."""
    with np.load(path) as file:
        arrays = dict(file)
    metadata = json.loads(str(arrays["metadata"]))
    change(metadata)
    arrays["metadata"] = np.asarray(json.dumps(metadata))
    np.savez(path, **arrays)


FORGED = {
    "another class": lambda metadata: metadata["progress"].update({"class": "Popen"}),
    "another value": lambda metadata: metadata["progress"]["content"].update(seconds="long"),
    "a field too few": lambda metadata: metadata["progress"]["content"].pop("norms"),
    "an array that is not there": lambda metadata: metadata["progress"]["content"].update(W0={"array": "array99"}),
    "no fit": lambda metadata: metadata.update(progress=3),
    "no identity": lambda metadata: metadata.pop("identity"),
    "another version": lambda metadata: metadata.update(vrpca="9.0"),
    "another format": lambda metadata: metadata.update(checkpoint=99),
    "no checkpoint": lambda metadata: metadata.pop("checkpoint"),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_files(what, tmp_path):
    path = tmp_path / "fit.npz"
    cut_short(path)
    rewritten(path, FORGED[what])
    with pytest.raises(DataError, match="Remove it"):
        pca(DENSE, 2, solver="power", checkpoint=path)


def test_foreign_files(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, DENSE)
    for X in (DENSE, path):
        with pytest.raises(DataError, match="not a checkpoint"):
            pca(X, 2, checkpoint=path)
    np.testing.assert_array_equal(np.load(path), DENSE)
    model = tmp_path / "model.npz"
    vrpca.save(vrpca.PCA(2).fit(DENSE), model)
    with pytest.raises(DataError, match="not a checkpoint"):
        pca(DENSE, 2, checkpoint=model)


def test_no_pickle_is_written(tmp_path):
    path = tmp_path / "fit.npz"
    cut_short(path)
    with zipfile.ZipFile(path) as file:
        assert all(name.endswith(".npy") for name in file.namelist())
    with np.load(path, allow_pickle=False) as file:
        assert all(array.dtype.kind in "fbiU" for array in file.values())


def test_every_state_can_be_stored():
    """A new solver's state has to be listed."""

    def kinds(kind):
        return {kind} | {each for child in kind.__subclasses__() for each in kinds(child)}

    states = {kind for kind in kinds(State) if not inspect.isabstract(kind) and kind.__module__.startswith("vrpca")}
    assert states <= set(checkpoints.CLASSES.values())


def test_what_cannot_be_stored():
    with pytest.raises(TypeError, match="A complex cannot be stored"):
        Packer({}).pack([1j])
    with pytest.raises(ValueError, match="stands for nothing"):
        Unpacker({}, {}).unpack([1])


# ------------------------------------------------------------------------------------------------- places to write to


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="there is no folder"):
        pca(DENSE, 2, checkpoint=tmp_path / "nowhere" / "fit.npz")


def test_a_read_only_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(DataError, match="is read-only"):
        pca(DENSE, 2, checkpoint=tmp_path / "fit.npz")


def test_a_full_disk_does_not_end_the_fit(tmp_path, monkeypatch):
    """The last checkpoint that could be written stays."""
    path = tmp_path / "fit.npz"
    savez = np.savez

    def full(file, **arrays):
        if path.exists():
            file.write(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        savez(file, **arrays)

    monkeypatch.setattr(np, "savez", full)
    with pytest.warns(UserWarning, match=r"No space left on device.*The fit goes on"):
        found = pca(DENSE, 2, solver="power", checkpoint=path)
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["fit.npz"]
    assert numbers(found) == numbers(pca(DENSE, 2, solver="power", checkpoint=path))


@pytest.mark.parametrize("value", [3, True, b"fit.npz", object()])
def test_no_path(value):
    with pytest.raises(OptionError, match=r"checkpoint=.* must be the path of a file, or None"):
        pca(DENSE, 2, checkpoint=value)


# --------------------------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("estimator", [vrpca.PCA, vrpca.TruncatedSVD])
def test_an_estimator_goes_on_where_it_was_interrupted(estimator, tmp_path):
    def interrupt(record):
        if record.epoch == 3:
            raise KeyboardInterrupt

    options = {"solver": "power", "tol": 1e-6, "random_state": 0, "warm_start": True, "max_passes": 200}
    model = estimator(2, checkpoint=tmp_path / "fit.npz", callback=interrupt, **options)
    assert clone(model).checkpoint == tmp_path / "fit.npz"
    with pytest.raises(KeyboardInterrupt):
        model.fit(DENSE)
    model.set_params(callback=None).fit(DENSE)
    unbroken = estimator(2, **options).fit(DENSE)
    assert model.components_.tobytes() == unbroken.components_.tobytes()
    assert [r.passes for r in model.history_] == [r.passes for r in unbroken.history_]
    assert not (tmp_path / "fit.npz").exists()


def test_an_estimator_that_needs_means_refuses_the_checkpoint_of_a_function_that_does_not(tmp_path):
    """`svd` sums up squares alone: without means, the variances of the scores would be wrong."""
    options = {"solver": "power", "tol": 1e-12, "random_state": 0, "checkpoint": tmp_path / "fit.npz"}
    with pytest.warns(ConvergenceWarning):
        vrpca.svd(DENSE, 2, compute_u=False, max_passes=4, **options)
    with pytest.raises(DataError, match=r"the checkpoint of another fit.*means was False, now True.*Remove it"):
        vrpca.TruncatedSVD(2, **options).fit(DENSE)


# ------------------------------------------------------------------------------------------------------------- killed

CHILD = """
import os, sys
import numpy as np
import vrpca, vrpca.checkpoint
vrpca.checkpoint.EVERY, vrpca.checkpoint.SHARE, os.fsync = 0.0, float("inf"), lambda number: None
X = np.random.default_rng(0).standard_normal((1500, 40)) * 0.97 ** np.arange(40)
path = sys.argv[1] if len(sys.argv) > 1 else None
print("begins", flush=True)
found = vrpca.svd(X, 3, solver="vr", restarts=2, tol=1e-6, random_state=0, n_threads=1, max_passes=200, checkpoint=path)
print(found.Vt.tobytes().hex(), found.s.tobytes().hex(), [record.bound for record in found.history], found.n_passes)
"""


def child(*arguments):
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    return process


def test_killed_and_resumed(tmp_path, monkeypatch, capsys):
    """SIGKILL leaves no time for anything."""
    path, kills = tmp_path / "fit.npz", 0
    for delay in np.random.default_rng(0).uniform(0.0, 0.1, 2):
        with child(path) as process:
            while not path.exists() and process.poll() is None:  # a busy machine may take long to get there
                time.sleep(0.001)
            time.sleep(delay)
            process.kill()
            kills += process.wait() == -signal.SIGKILL
    assert kills and path.exists()
    with child(path) as process:
        resumed = process.communicate()[0]
    monkeypatch.setattr(sys, "argv", ["unbroken"])
    exec(CHILD, {})
    assert capsys.readouterr().out == f"begins\n{resumed}"
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------- command line


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "data.npy", DENSE)
    return tmp_path / "data.npy"


def command(*arguments):
    return run([str(argument) for argument in arguments])


def test_resume_on_the_command_line(data, tmp_path, capsys):
    path, out = tmp_path / "fit.npz", tmp_path / "model.npz"
    options = ("fit", data, "-k", 2, "--solver", "power", "--quiet", "--tol", 1e-6, "--threads", 1)
    assert command(*options, "--resume") == 2
    assert "--resume needs the name of a checkpoint" in capsys.readouterr().err
    assert command(*options, "--checkpoint", path, "--resume", "--max-passes", 5) == 1
    assert "there is no checkpoint" in capsys.readouterr().err and path.exists()
    assert command(*options, "--checkpoint", path) == 2
    assert "add --resume to go on from it" in capsys.readouterr().err
    assert command(*options, "--checkpoint", path, "--resume", "--out", out) == 0
    assert not path.exists()
    assert command(*options, "--out", tmp_path / "unbroken.npz") == 0
    one, other = vrpca.load(out), vrpca.load(tmp_path / "unbroken.npz")
    assert one.components_.tobytes() == other.components_.tobytes() and one.n_passes_ == other.n_passes_


def test_a_checkpoint_replaces_no_other_file(data, capsys):
    assert command("fit", data, "-k", 2, "--checkpoint", data, "--resume") == 2
    assert "would replace DATA" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_sigterm(data, tmp_path):
    path, out = tmp_path / "fit.npz", tmp_path / "model.npz"
    options = ["-k", "2", "--solver", "oja", "--tol", "0", "--max-passes", "1e9", "--checkpoint", str(path), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vrpca", "fit", str(data), *options, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not path.exists() and process.poll() is None:
        time.sleep(0.05)
    process.terminate()
    text, err = process.communicate()
    assert (process.returncode, err) == (143, "vrpca: terminated.\n")
    assert "NOT CONVERGED" in text and path.exists()
    assert vrpca.load(out).status_ is Status.INTERRUPTED


def test_warm_start_on_the_command_line(data, tmp_path, capsys):
    small, large = tmp_path / "small.npz", tmp_path / "large.npz"
    options = ("--solver", "power", "--quiet", "--tol", 1e-6)
    assert command("fit", data, "-k", 4, *options, "--out", small) == 0
    assert command("fit", data, "-k", 4, *options, "--warm-start", small, "--out", large) == 0
    assert vrpca.load(large).n_passes_ < vrpca.load(small).n_passes_
    np.save(tmp_path / "other.npy", DENSE[:, :30])
    capsys.readouterr()
    assert command("fit", tmp_path / "other.npy", "-k", 2, "--warm-start", small) == 2
    assert "is a model of 40 columns, but the data have 30" in capsys.readouterr().err
