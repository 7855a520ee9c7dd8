"""What the command line says, in its own words, and how it takes what it is given."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import vrpca
from vrpca import progress
from vrpca.history import Record


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(1).standard_normal((80, 6)) * [6, 5, 4, 1, 1, 1]


@pytest.fixture
def data(tmp_path, X):
    np.save(tmp_path / "data.npy", X)
    return tmp_path / "data.npy"


def test_the_most_likely_number_of_components(vrpca_command, data, X):
    code, out, _ = vrpca_command("fit", data, "-k", "mle", "--json", "-q")
    assert code == 0 and len(json.loads(out)["components"]) == vrpca.PCA("mle").fit(X).n_components_
    assert vrpca_command("info", data, "-k", "mle")[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-k 1.5", "-k 1.5 must be a number of components such as 10, a part of the variance such as 0.9, or mle."),
        ("-k 20", "-k 20 must be between 1 and"),
        ("-k 2 --memory plenty", "--memory plenty must be a number of bytes"),
        ("-k 2 --memory 1", "--memory"),
        ("-k 2 --threads 0", "--threads 0 must be"),
        ("-k 2 --out model.txt", "must end in .npz, since a model is an archive of arrays: name model.npz."),
    ],
)
def test_errors_name_options_of_the_command_line(vrpca_command, data, options, words, monkeypatch):
    monkeypatch.chdir(data.parent)
    code, out, err = vrpca_command("fit", data, *options.split())
    assert (code, out) == (2, "") and words in err
    assert not any(python in err for python in ("n_components", "memory_limit", "n_threads", "None"))


def test_other_messages_do_so_as_well(vrpca_command, data, tmp_path):
    (tmp_path / "model.npz").write_bytes(b"nothing")
    assert "Write it again with vrpca fit --out" in vrpca_command("check", tmp_path / "model.npz", data)[2]
    assert "--memory " in vrpca_command("info", data)[1]


@pytest.mark.parametrize("command", ["fit", "transform", "check", "info", "report", "bench growth", "reproduce"])
def test_help_shows_whole_names(vrpca_command, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = vrpca_command(*command.split(), "--help")
    assert code == 0 and "…" not in out and (command != "fit" or "--scale-genotypes " in out)


def test_one_pass_is_singular(vrpca_command, data):
    out = vrpca_command("fit", data, "-k", 2, "-q")[1]
    assert "after 1 pass," in out and "1 pass." in str(vrpca.pca(np.load(data), 2, compute_u=False))


def test_the_time_left_is_told_when_there_is_enough_to_go_by():
    young = Record(1, 2.0, 200, 0.05, 0.5, 0.5, 1e-4)
    assert "left" not in progress.describe_progress(young, 1e-8)
    far = Record(1, 2.0, 200, 5.0, 0.5, 0.5, 0.9)
    assert "left" not in progress.describe_progress(far, 1e-8)


def test_no_color_means_no_bold_letters_either(vrpca_command, data, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in vrpca_command("fit", data, "-k", 2, "-q")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in vrpca_command("fit", data, "-k", 2, "-q")[1]


def test_seconds_of_a_resumed_fit_are_those_of_all_its_passes(vrpca_command, data, tmp_path, monkeypatch):
    fit = vrpca.PCA.fit

    def resumed(self, X):
        fit(self, X)
        self.history_[-1] = Record(**self.history_[-1].asdict() | {"seconds": 1000.0})
        return self

    monkeypatch.setattr(vrpca.PCA, "fit", resumed)
    assert json.loads(vrpca_command("fit", data, "-k", 2, "--json", "-q")[1])["seconds"] == 1000.0


def test_advice_of_the_library(X):
    with pytest.raises(ValueError, match=r"X\.reshape\(len\(X\), -1\)"):
        vrpca.PCA(2).fit(np.zeros((4, 3, 2)))
    frame = pd.DataFrame(X, columns=list("abcdef"), index=[f"s{i}" for i in range(80)]).reset_index()
    with pytest.raises(ValueError, match=r"X\.set_index\('index'\)"):
        vrpca.PCA(2).fit(frame)
    with pytest.raises(ValueError, match=r"decomposed\. Drop or encode it"):
        vrpca.PCA(2).fit(frame.set_index("a", drop=False).assign(g="text").drop(columns="index"))


@pytest.mark.parametrize(("option", "words"), [("use_highly_variable", "mask_var="), ("chunked", "no chunks are")])
def test_options_of_scanpy(option, words):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    with pytest.raises(TypeError, match=words):
        vrpca.anndata.pca(anndata.AnnData(np.eye(5)), 2, **{option: True})
