"""Scores as files: every format holds the same numbers and names, and bad ones are refused before any work."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vrpca

K = 3


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(3).standard_normal((70, 12)) * np.geomspace(3, 0.1, 12) + 2


@pytest.fixture
def named(tmp_path, X):
    """A table with names of rows and columns."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, index=[f'cell "{i}", x' for i in range(len(X))], columns=[f"gene{j}" for j in range(12)])
    frame.to_parquet(tmp_path / "named.parquet")
    return tmp_path / "named.parquet"


@pytest.fixture
def model(tmp_path, named, vrpca_command):
    assert vrpca_command("fit", named, "-k", K, "--out", tmp_path / "model.npz", "--quiet")[0] == 0
    return tmp_path / "model.npz"


def read_text(path):
    """A table from text, to the last digit."""
    return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",", float_precision="round_trip")


def read(path):
    """The scores in a file, and the names of the samples if it has any."""
    if path.suffix == ".npy":
        return np.load(path), None
    if path.suffix == ".h5ad":
        data = pytest.importorskip("anndata").read_h5ad(path)
        return data.obsm["X_pca"], list(data.obs_names)
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else read_text(path)
    assert list(frame.columns)[-K:] == ["pc1", "pc2", "pc3"]
    return frame[["pc1", "pc2", "pc3"]].to_numpy(), list(frame["sample"]) if "sample" in frame else None


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".tsv", ".parquet", ".h5ad"])
def test_every_format_has_the_same_numbers_and_names(suffix, tmp_path, X, named, model, vrpca_command):
    out = tmp_path / f"scores{suffix}"
    code, text, _ = vrpca_command("transform", model, named, "--out", out, "--json")
    assert code == 0
    assert json.loads(text)["n_samples"] == len(X) and json.loads(text)["scores"] == str(out)
    scores, names = read(out)
    np.testing.assert_array_equal(scores, vrpca.load(model).transform(pd.read_parquet(named)))
    assert names == (None if suffix == ".npy" else [f'cell "{i}", x' for i in range(len(X))])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["named.parquet", "model.npz", out.name])


def test_annotated_scores_have_the_components_too(tmp_path, named, model, vrpca_command):
    anndata = pytest.importorskip("anndata")
    assert vrpca_command("transform", model, named, "--out", tmp_path / "scores.h5ad")[0] == 0
    data, fitted = anndata.read_h5ad(tmp_path / "scores.h5ad"), vrpca.load(model)
    np.testing.assert_array_equal(data.varm["PCs"], fitted.components_.T)
    np.testing.assert_array_equal(data.uns["pca"]["variance_ratio"], fitted.explained_variance_ratio_)
    assert list(data.var_names) == list(fitted.feature_names_in_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_text_keeps_every_digit(dtype, tmp_path, X, vrpca_command):
    np.save(tmp_path / "data.npy", X.astype(dtype))
    command = ("fit", tmp_path / "data.npy", "-k", K, "--out", tmp_path / "m.npz", "--scores", tmp_path / "s.csv", "-q")
    assert vrpca_command(*command)[0] == 0
    truth = vrpca.load(tmp_path / "m.npz").transform(X.astype(dtype))
    np.testing.assert_array_equal(read_text(tmp_path / "s.csv").to_numpy().astype(dtype), truth)


def test_many_rows(tmp_path, monkeypatch, X, model, named, vrpca_command):
    monkeypatch.setattr(vrpca.score_files, "ROWS", 8)
    for suffix in (".csv", ".parquet"):
        assert vrpca_command("transform", model, named, "--out", tmp_path / f"s{suffix}")[0] == 0
        assert read(tmp_path / f"s{suffix}")[0].shape == (len(X), K)


def test_scores_on_stdout_have_it_to_themselves(tmp_path, X, model, named, vrpca_command):
    code, out, err = vrpca_command("transform", model, named, "--out", "-")
    assert code == 0 and "70 x 3 scores" in err
    assert pd.read_csv(io.StringIO(out)).shape == (len(X), K + 1)
    code, out, err = vrpca_command("fit", named, "-k", K, "--scores", "-")
    assert code == 0 and "converged" in err
    assert pd.read_csv(io.StringIO(out)).shape == (len(X), K + 1)


@pytest.mark.parametrize("command", ["fit", "transform"])
@pytest.mark.parametrize("name", ["scores", "scores.xlsx"])
def test_other_suffixes_are_refused_before_any_work(command, name, tmp_path, named, model, vrpca_command):
    given = ("fit", named, "-k", 2, "--scores") if command == "fit" else ("transform", model, named, "--out")
    code, out, err = vrpca_command(*given, tmp_path / name)
    assert code == 2 and out == "" and "name a file that ends in .npy, .csv, .tsv, .parquet, .h5ad" in err
    assert not (tmp_path / name).exists()


def test_scores_never_replace_another_file(tmp_path, named, vrpca_command):
    code, _, err = vrpca_command("fit", named, "-k", 2, "--scores", named)
    assert code == 2 and "would replace DATA" in err


def piped(data: bytes, *arguments, **variables):
    """Run a command in a process of its own, with data on stdin."""
    command = [sys.executable, "-m", "vrpca", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, env=os.environ | variables, check=False)


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_data_from_stdin(kind, tmp_path, X):
    stream = io.BytesIO()
    if kind == "npy":
        np.save(stream, X)
    elif kind == "csv":
        pd.DataFrame(X, columns=list("abcdefghijkl")).to_csv(stream, index=False)
    else:
        pytest.importorskip("pyarrow")
        pd.DataFrame(X, columns=list("abcdefghijkl")).to_parquet(stream)
    done = piped(stream.getvalue(), "fit", "-", "-k", K, "--json", "-q", VRPCA_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    found = [component["variance"] for component in json.loads(done.stdout)["components"]]
    np.testing.assert_allclose(found, vrpca.PCA(K).fit(X).explained_variance_, rtol=1e-8)


def test_nothing_on_stdin():
    done = piped(b"", "fit", "-", "-k", 2)
    assert done.returncode == 2 and b"stdin is empty" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_knows_the_choices(shell):
    words = "vrpca fit data.npy --solver a"
    variables = {
        "_VRPCA_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": "4",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    script = Path(sys.executable).parent / "vrpca"  # completion knows the program by its name
    done = subprocess.run([script], capture_output=True, text=True, env=os.environ | variables, check=False)
    assert "accelerated" in done.stdout and "krylov" not in done.stdout


def test_progress_without_a_terminal_is_plain_lines(tmp_path, X, vrpca_command):
    np.save(tmp_path / "data.npy", X)
    code, _, err = vrpca_command("fit", tmp_path / "data.npy", "-k", 2, "--solver", "krylov")
    assert code == 0
    lines = [line for line in err.splitlines() if "passes" in line]
    assert lines and all(line.startswith("vrpca: ") and "rows/s, bound" in line for line in lines)
    assert "\x1b" not in err


def test_help_has_examples(vrpca_command):
    for command in ("fit", "transform", "check", "info"):
        assert f"vrpca {command}" in vrpca_command(command, "--help")[1].split("Examples:")[1]
