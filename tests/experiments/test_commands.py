"""``vrpca bench`` from the command line: files in, tables and files out, exit codes."""

import csv
import json

import numpy as np
import pytest
import scipy.sparse as sp

from vrpca.experiments.bench import measure
from vrpca.experiments.bench.growth import FACTORS, Series


@pytest.fixture
def X():
    return np.random.default_rng(5).standard_normal((300, 20)) * np.geomspace(1, 0.05, 20) + 1


def played(job):
    """What the process of a job would report."""
    size = job["nnz"] or job["shape"][0]
    truth = job["setting"].get("tol", 1e-4) / 2
    history = [[2.0, 0.9 * sum(job["eigenvalues"]), 1.0], [4.0, (1 - truth) * sum(job["eigenvalues"]), truth]]
    return {
        "status": "ok",
        "seconds": 1e-6 * size,
        "passes": 4.0,
        "memory": 2**20,
        "truth": truth,
        "certificate": 2 * truth if job["peer"] == "vrpca" else None,
        "converged": True,
        "history": history,
    }


@pytest.mark.parametrize("kind", ["npy", "npz", "sparse npz"])
def test_any_file(vrpca_command, tmp_path, X, kind, monkeypatch):
    path = tmp_path / f"data.{kind[-3:]}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        np.savez(path, X=X)
    else:
        sp.save_npz(path, sp.csr_matrix(X * (X > 1)))
    if kind != "npy":  # real processes once
        monkeypatch.setattr(measure, "launch", played)
    out = tmp_path / "out"
    arguments = ("bench", path, "-k", 2, "--peers", "svds arpack", "--targets", "1e-6", "--repeats", 1, "--out", out)
    code, text, err = vrpca_command(*arguments, "--threads", 1)
    assert code == 0, err
    assert "vrpca auto" in text and "scipy svds arpack" in text and "k = 2" in text
    assert "truth within the certificate in 1 of 1 runs" in text
    assert "suboptimality" in err
    assert sorted(p.name for p in out.iterdir()) == [f"peers.{end}" for end in ("csv", "json", "jsonl", "md", "png")]
    results = json.loads((out / "peers.json").read_text())["results"]
    rows = list(csv.DictReader((out / "peers.csv").read_text().splitlines()))
    assert [float(row["truth"]) for row in rows] == [r["truth"] for r in results]
    assert all(r["status"] == "ok" and r["truth"] <= 1e-6 for r in (results[0], results[-1]))
    assert "| vrpca auto |" in (out / "peers.md").read_text()


def test_resume_and_quiet(vrpca_command, tmp_path, X, monkeypatch):
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr(measure, "launch", played)
    arguments = ("bench", tmp_path / "X.npy", "-k", "1,2", "--peers", "", "--out", tmp_path / "out", "--quiet")
    code, first, err = vrpca_command(*arguments)
    assert (code, err) == (0, "")
    code, _, err = vrpca_command(*arguments)
    assert code == 2 and "--resume" in err
    monkeypatch.setattr(measure, "launch", lambda job: pytest.fail("measured again"))
    assert vrpca_command(*arguments, "--resume")[:2] == (0, first)


def test_growth(vrpca_command, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "launch", played)
    for kind in ("DENSE_ROWS", "SPARSE_ROWS"):
        monkeypatch.setattr(f"vrpca.experiments.bench.growth.{kind}", 500)
    monkeypatch.setattr("vrpca.experiments.bench.measure.reference", lambda data, k, cache, tell: np.ones(k))
    out = tmp_path / "out"
    code, text, _ = vrpca_command("bench", "growth", "--size", "small", "--solvers", "power,vr", "--out", out)
    assert code == 0 and text.count("time per pass grows like size to the 1.00") == 4
    assert (out / "growth.png").stat().st_size > 1000 and "power" in (out / "growth.md").read_text()
    assert FACTORS[-1] / FACTORS[0] == 100


def test_exponents():
    results = [
        {"status": "ok", "shape": [n, 9], "nnz": None, "seconds": 3e-9 * n**1.5, "passes": 3.0} for n in (10, 100, 1000)
    ]
    assert Series("rows", "x", results).exponent == pytest.approx(1.5)
    assert np.isnan(Series("rows", "x", results[:1]).exponent)


def test_passes(vrpca_command, tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr(measure, "launch", lambda job: jobs.append(job) or played(job))
    arguments = ("bench", "passes", "flat", "power-law", "--size", "small", "--solvers", "power,vr", "--quiet")
    code, text, _ = vrpca_command(*arguments, "--target", "1e-4", "--out", tmp_path / "out")
    assert code == 0 and text.count("4 (4)") == 4
    assert {(job["k"], job["setting"]["oversample"]) for job in jobs} == {(1, 2), (10, 10)}
    assert {job["dtype"] for job in jobs} == {"float64"}
    assert (tmp_path / "out" / "passes.md").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("nowhere.npy -k 1", "no data file"),
        ("mnits", "neither a file nor a data set"),
        ("mnist --data nowhere", "--data"),
        ("X.npy", "needs -k"),
        ("X.npy -k two", "-k two"),
        ("X.npy -k 21", "k = 21"),
        ("X.npy -k 1 --targets 0", "between 0 and 1"),
        ("X.npy -k 1 --targets small", "small"),
        ("X.npy -k 1 --solvers magic", "magic"),
        ("X.npy -k 1 --peers nobody", "nobody"),
        ("X.npy -k 1 --size huge", "huge"),
        ("X.npy -k 1 --resume", "--out"),
        ("X.npy -k 1 --repeats 0", "repeats = 0"),
        ("X.npy -k 1 --out X.npy", "folder"),
        ("passes X.npy -k 1 --dtype int8", "int8"),
        ("growth --solvers magic", "magic"),
        ("growth --colour red", "--colour"),
    ],
)
def test_bad_input(vrpca_command, tmp_path, X, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "launch", lambda job: pytest.fail("measured"))
    np.save(tmp_path / "X.npy", X)
    code, text, err = vrpca_command("bench", *arguments.split())
    assert (code, text) == (2, "") and err.startswith("vrpca: ") and err.count("\n") == 1
    assert word in err


@pytest.mark.parametrize(("arguments", "name"), [(["bench"], "peers.csv"), (["bench", "passes"], "passes.json")])
def test_results_never_replace_the_data(vrpca_command, tmp_path, X, monkeypatch, arguments, name):
    """A data file is recognised by its first bytes, so it may have any name, such as that of a result."""
    monkeypatch.setattr(measure, "launch", played)
    out = tmp_path / "out"
    out.mkdir()
    with (out / name).open("wb") as file:
        np.save(file, X)
    before = (out / name).read_bytes()
    code, text, err = vrpca_command(*arguments, out / name, "-k", 1, "--out", out)
    assert (code, text) == (2, "") and f"--out {out / name} would replace DATA {out / name}" in err
    assert [path.name for path in out.iterdir()] == [name] and (out / name).read_bytes() == before


def test_data_in_the_folder_of_the_results(vrpca_command, tmp_path, X, monkeypatch):
    monkeypatch.setattr(measure, "launch", played)
    np.save(tmp_path / "peers.npy", X)
    before = (tmp_path / "peers.npy").read_bytes()
    arguments = ("bench", tmp_path / "peers.npy", "-k", 1, "--peers", "", "--quiet", "--out", tmp_path)
    assert vrpca_command(*arguments)[0] == 0
    assert vrpca_command(*arguments, "--resume")[0] == 0
    assert (tmp_path / "peers.npy").read_bytes() == before


def test_help(vrpca_command):
    for arguments in (["bench", "--help"], ["bench", "peers", "--help"], ["bench", "growth", "--help"]):
        code, text, err = vrpca_command(*arguments)
        assert code == 0 and "Usage" in text and err == ""
