"""The command line: every command, every exit code, one line per error, and nothing half-written."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import vrpca
from helpers import run_python
from vrpca import scores
from vrpca.cli import printing
from vrpca.cli.shared import EXPERIMENTS, warnings_on_stderr


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(7).standard_normal((300, 40)) * np.geomspace(2, 0.05, 40) + 1


@pytest.fixture
def data(tmp_path, X):
    np.save(tmp_path / "data.npy", X)
    return tmp_path / "data.npy"


@pytest.fixture
def model(tmp_path, data, vrpca_command):
    path = tmp_path / "model.npz"
    assert vrpca_command("fit", data, "-k", 3, "--out", path, "--quiet")[0] == 0
    return path


def test_equal_warnings_are_shown_once(capsys):
    with warnings_on_stderr(quiet=False):
        for message in ("one", "other", "one"):
            warnings.warn(message, UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "vrpca: warning: one\nvrpca: warning: other\n"


def test_a_warning_is_shown_once_per_command(vrpca_command, tmp_path, data, X):
    names = [f"c{j}" for j in range(X.shape[1])]
    vrpca.save(vrpca.PCA(2, random_state=0).fit(pd.DataFrame(X, columns=names)), tmp_path / "named.npz")
    for _ in range(2):
        code, _, err = vrpca_command("transform", tmp_path / "named.npz", data, "--out", tmp_path / "scores.npy")
        assert code == 0
        assert "feature names" in err and err.count("warning:") == 1


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_version(vrpca_command):
    assert vrpca_command("--version") == (0, f"vrpca {vrpca.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["transform", "--help"], ["check", "--help"]])
def test_help(vrpca_command, arguments):
    code, out, err = vrpca_command(*arguments)
    assert code == 0 and "Usage" in out and err == ""


@pytest.mark.parametrize("start", [["-m", "vrpca"], ["-c", "from vrpca.cli import main; main()"]])
def test_entry_points(start, data, X):
    done = subprocess.run(
        [sys.executable, *start, "fit", str(data), "-k", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["component", "variance", "ratio", "cumulative", "residual"]
    assert "1 pass," in done.stderr  # the progress bar
    broken = subprocess.run([sys.executable, *start, "fit", "nowhere.npy", "-k", "2"], capture_output=True, check=False)
    assert broken.returncode == 2 and broken.stdout == b"" and broken.stderr.startswith(b"vrpca: ")


def test_typer_stays_out_of_the_library():
    code = (
        "import sys, vrpca, vrpca.check, vrpca.plot, vrpca.report\n"
        "assert not {'typer', 'matplotlib', 'altair'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_experiments_are_imported_by_bench_and_reproduce_only(data):
    without = [["--help"], ["fit", "--help"], ["fit", str(data), "-k", "2"]]
    code = (
        "import sys\n"
        "from vrpca.cli import run\n"
        "def imported(): return any(name.startswith('vrpca.experiments') for name in sys.modules)\n"
        f"for arguments in {without!r}: assert run(arguments) == 0 and not imported(), arguments\n"
        f"assert run(['bench', {str(data)!r}, '-k', '2', '--resume']) == 2 and imported()\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_the_help_of_experiments(vrpca_command):
    """Their options are declared elsewhere, but nobody sees that."""
    _, commands, _ = vrpca_command("--help")
    for name, option in (("bench", "growth"), ("reproduce", "--lambdas")):
        code, out, err = vrpca_command(name, "--help")
        assert code == 0 and err == ""
        assert f"Usage: vrpca {name}" in out and option in out
        assert name in commands and EXPERIMENTS[name] in " ".join(out.split())
        assert EXPERIMENTS[name].split(":")[0] in commands


def test_fit_prints_the_components(vrpca_command, data, X):
    code, out, err = vrpca_command("fit", data, "-k", 3, "--quiet")
    assert code == 0 and err == ""
    *table, last = out.splitlines()
    assert len({len(line) for line in table}) == 1  # aligned
    numbers = np.array([line.split() for line in table[1:]], dtype=float)
    s2 = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_array_equal(numbers[:, 0], [1, 2, 3])
    np.testing.assert_allclose(numbers[:, 1], s2[:3] / (len(X) - 1), rtol=1e-5)
    np.testing.assert_allclose(numbers[:, 2], s2[:3] / s2.sum(), atol=1e-6)
    np.testing.assert_allclose(numbers[:, 3], np.cumsum(s2[:3]) / s2.sum(), atol=1e-6)
    for part in ("gram", "40 entries", "converged", "1 pass,", " s;", "exact certificate", "tol 1e-08"):
        assert part in last


def test_fit_draws_a_table_on_a_terminal(vrpca_command, data, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = vrpca_command("fit", data, "-k", 2, "--quiet")
    assert code == 0 and "─" in out and "variance" in out


def test_fit_json(vrpca_command, data, tmp_path, X):
    out = tmp_path / "model.npz"
    code, text, _ = vrpca_command("fit", data, "-k", 3, "--solver", "vr", "--json", "--out", out)
    found = json.loads(text)
    assert code == 0
    assert found["solver"] == "vr" and found["reason"] == "asked for" and found["converged"] is True
    assert found["certificate"]["kind"] == "estimated" and found["certificate"]["suboptimality"] <= found["tol"] == 1e-8
    assert (found["n_samples"], found["n_features"], found["model"], found["plot"]) == (300, 40, str(out), None)
    s2 = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    assert [c["variance"] for c in found["components"]] == pytest.approx(s2[:3] / 299, rel=1e-6)


def test_json_has_no_infinity():
    found = printing.finite({"a": [np.float32(1.5), float("inf")], "b": np.nan, "c": 2})
    assert found == {"a": [1.5, None], "b": None, "c": 2}


def test_fit_options_reach_the_model(vrpca_command, data, tmp_path):
    out = tmp_path / "model.npz"
    numbers = {"-k": 1, "--tol": 1e-4, "--max-passes": 60, "--threads": 1, "--seed": 5}
    options = [part for pair in numbers.items() for part in pair]
    flags = ["--solver", "vr", "--no-center", "--scale", "--quiet"]
    assert vrpca_command("fit", data, *options, *flags, "--out", out)[0] == 0
    model = vrpca.load(out)
    expected = {
        "n_components": 1,
        "tol": 1e-4,
        "solver": "vr",
        "center": False,
        "scale": True,
        "max_passes": 60,
        "n_threads": 1,
        "random_state": 5,
        "verbose": False,
    }
    assert {name: model.get_params()[name] for name in expected} == expected
    assert model.mean_ is None and model.scale_ is not None


def test_fit_of_a_fraction(vrpca_command, data, tmp_path, X):
    out = tmp_path / "model.npz"
    assert vrpca_command("fit", data, "-k", "0.9", "--out", out)[0] == 0
    ratio = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    needed = np.searchsorted(np.cumsum(ratio) / ratio.sum(), 0.9) + 1
    assert vrpca.load(out).n_components_ == needed


def test_fit_is_repeatable(vrpca_command, data):
    def components():
        found = json.loads(vrpca_command("fit", data, "-k", 2, "--solver", "vr", "--json", "--quiet")[1])
        return found["components"]

    assert components() == components()


def test_fit_that_does_not_converge(vrpca_command, data, tmp_path):
    out = tmp_path / "model.npz"
    arguments = ("fit", data, "-k", 3, "--solver", "power", "--max-passes", 4, "--out", out)
    code, text, err = vrpca_command(*arguments)
    assert code == 1 and "NOT CONVERGED" in text and len(text.splitlines()) == 6
    (warning,) = [line for line in err.splitlines() if line.startswith("vrpca: warning: ")]
    assert warning.startswith("vrpca: warning: 3 component(s)") and "--max-passes" in warning
    assert not vrpca.load(out).converged_
    code, _, err = vrpca_command(*arguments, "--quiet")
    assert code == 1 and err == ""


def test_fit_sparse_centred(vrpca_command, tmp_path, X):
    S = sp.csr_array(np.where(np.abs(X) > 1.2, X, 0))
    sp.save_npz(tmp_path / "data.npz", S)
    code, text, _ = vrpca_command("fit", tmp_path / "data.npz", "-k", 2, "--json")
    Z = S.toarray() - S.toarray().mean(axis=0)
    expected = np.linalg.svd(Z, compute_uv=False)[:2] ** 2 / (len(Z) - 1)
    assert code == 0
    assert [c["variance"] for c in json.loads(text)["components"]] == pytest.approx(expected, rel=1e-6)


def test_fit_plot(vrpca_command, data, tmp_path):
    code, text, _ = vrpca_command("fit", data, "-k", 2, "--plot", tmp_path / "plot.svg")
    assert code == 0 and "plot written to" in text
    assert (tmp_path / "plot.svg").read_text().lstrip().startswith("<?xml")


def test_the_data_file_is_not_changed(vrpca_command, data, model, tmp_path):
    before, time = digest(data), data.stat().st_mtime_ns
    vrpca_command("fit", data, "-k", 2, "--scale")
    vrpca_command("transform", model, data, "--out", tmp_path / "scores.npy")
    vrpca_command("check", model, data)
    assert (digest(data), data.stat().st_mtime_ns) == (before, time)


@pytest.mark.parametrize("rows", [7, 1024])
@pytest.mark.parametrize("kind", ["npy", "csr", "csc", "coo"])
def test_transform(vrpca_command, model, tmp_path, X, kind, rows, monkeypatch):
    for name in ("ROWS", "SPARSE_ROWS"):
        monkeypatch.setattr(scores, name, rows)
    if kind == "npy":
        np.save(tmp_path / "new", X)
    else:
        sp.save_npz(tmp_path / "new.npy", sp.csr_array(X).asformat(kind))
        (tmp_path / "new.npy.npz").rename(tmp_path / "new.npy")
    out = tmp_path / "scores.npy"
    code, text, err = vrpca_command("transform", model, tmp_path / "new.npy", "--out", out)
    assert (code, err) == (0, "") and "300 x 3 scores (float64)" in text
    np.testing.assert_allclose(np.load(out), vrpca.load(model).transform(X), rtol=1e-12, atol=1e-12)


def test_transform_of_float32_data(vrpca_command, tmp_path, X):
    np.save(tmp_path / "data.npy", X.astype(np.float32))
    vrpca_command("fit", tmp_path / "data.npy", "-k", 2, "--out", tmp_path / "model.npz")
    vrpca_command("transform", tmp_path / "model.npz", tmp_path / "data.npy", "--out", tmp_path / "scores.npy")
    assert np.load(tmp_path / "scores.npy").dtype == np.float32


def test_check(vrpca_command, data, model):
    code, text, err = vrpca_command("check", model, data)
    assert code == 0 and err == "" and text.splitlines()[-1].startswith("ok: suboptimality at most")
    code, text, _ = vrpca_command("check", model, data, "--json", "--tol", 1e-6)
    found = json.loads(text)
    assert found["ok"] is True and found["tol"] == 1e-6 and len(found["components"]) == 3


def test_check_of_a_wrong_model(vrpca_command, data, model):
    wrong = vrpca.load(model)
    wrong.components_[1] = np.eye(40)[30]
    vrpca.save(wrong, model)
    code, text, _ = vrpca_command("check", model, data)
    assert code == 1 and text.splitlines()[-1].startswith("WRONG: suboptimality at least")


def with_nan(X, row, column):
    X = X.copy()
    X[row, column] = np.nan
    return X


def bad_nan(path, X):
    np.save(path, with_nan(X, 5, 6))


def bad_complex(path, X):
    np.save(path, X + 0j)


def bad_text(path, X):
    np.save(path, X.astype(str))


def bad_objects(path, X):
    np.save(path, X.astype(object), allow_pickle=True)


def bad_empty(path, X):
    np.save(path, X[:0])


def bad_one_row(path, X):
    np.save(path, X[:1])


def bad_one_dimension(path, X):
    np.save(path, X[0])


def bad_constant(path, X):
    np.save(path, np.ones_like(X))


def bad_truncated(path, X):
    np.save(path, X)
    path.write_bytes(path.read_bytes()[:-8])


def bad_foreign(path, X):
    path.write_text("a,b\n1,2\n")


def bad_missing(path, X):
    pass


@pytest.mark.parametrize(
    ("write", "word"),
    [
        (bad_nan, "NaN"),
        (bad_complex, "Complex"),
        (bad_text, "numbers"),
        (bad_objects, "pickled"),
        (bad_empty, "0 sample"),
        (bad_one_row, "one row|between 1 and"),
        (bad_one_dimension, "2D"),
        (bad_constant, "no variance"),
        (bad_truncated, "truncated"),
        (bad_foreign, "not a .npy"),
        (bad_missing, "no data file"),
    ],
)
def test_bad_data(vrpca_command, tmp_path, X, write, word):
    path, out, plot = tmp_path / "data.npy", tmp_path / "model.npz", tmp_path / "plot.png"
    write(path, X)
    before = sorted(tmp_path.iterdir())
    code, text, err = vrpca_command("fit", path, "-k", 1, "--quiet", "--out", out, "--plot", plot)
    assert_refused(code, text, err, word)
    assert sorted(tmp_path.iterdir()) == before


def assert_refused(code, text, err, word):
    """Exit code 2, nothing on stdout, one line on stderr that names the cause."""
    assert (code, text) == (2, "")
    assert err.startswith("vrpca: ") and err.count("\n") == 1 and "Traceback" not in err
    assert any(part in err for part in word.split("|")), err


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("-k 0", "-k 0 must be between 1 and"),
        ("-k 41", "between 1 and"),
        ("-k 1.5", "-k 1.5 must be"),
        ("-k ten", "-k ten"),
        ("", "-k"),
        ("-k 2 --tol -1", "tol"),
        ("-k 2 --tol small", "--tol"),
        ("-k 2 --solver magic", "magic"),
        ("-k 2 --threads 0", "--threads 0"),
        (f"-k 2 --threads {10**23}", f"--threads {10**23} must be an integer"),
        ("-k 2 --seed -1", "--seed"),
        ("-k 2 --max-passes 0", "--max-passes 0"),
        ("-k 2 --colour red", "--colour"),
        ("-k 2 --out nowhere/model.npz", "no folder"),
        ("-k 2 --plot plot.jpg", ".png or .svg"),
        ("-k 2 --plot nowhere/plot.png", "no folder"),
    ],
)
def test_bad_options(vrpca_command, data, options, word, monkeypatch):
    monkeypatch.chdir(data.parent)
    before = sorted(data.parent.iterdir())
    assert_refused(*vrpca_command("fit", data, "--quiet", *options.split()), word)
    assert sorted(data.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("--threads 0", "--threads 0"),
        (f"--threads {10**23}", f"--threads {10**23}"),
        ("--seed -1", "--seed"),
        ("--passes 2", "--passes 2"),
        ("--tol nan", "--tol nan"),
    ],
)
def test_bad_options_of_check(vrpca_command, model, data, options, word):
    assert_refused(*vrpca_command("check", model, data, *options.split()), word)


def test_unknown_command(vrpca_command):
    assert_refused(*vrpca_command("fly"), "fly")


def test_no_command_shows_the_help(vrpca_command):
    code, out, err = vrpca_command()
    assert code == 2 and "Usage" in out + err and "Traceback" not in err


def test_outputs_are_checked_before_the_work(vrpca_command, data, monkeypatch):
    monkeypatch.setattr(vrpca.PCA, "fit", lambda *_: pytest.fail("the fit was started"))
    assert_refused(*vrpca_command("fit", data, "-k", 2, "--out", data.parent / "no" / "model.npz"), "no folder")
    assert_refused(*vrpca_command("fit", data, "-k", 2, "--plot", data.parent / "plot.gif"), ".gif")


def alias(path, kind, name="link.npy"):
    """Another way to name an existing file."""
    link = path.parent / name
    if kind == "relative path":
        return os.path.relpath(path)
    if kind == "detour":
        return path.parent / ".." / path.parent.name / path.name
    if kind == "symbolic link":
        link.symlink_to(path)
        return link
    if kind == "linked folder":
        (path.parent / "folder").symlink_to(path.parent)
        return path.parent / "folder" / path.name
    if kind == "hard link":
        os.link(path, link)
        return link
    return path


ALIASES = ["the same path", "relative path", "detour", "symbolic link", "linked folder", "hard link"]


def contents(folder):
    return {path.name: digest(path) for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("kind", ALIASES)
def test_outputs_of_fit_never_replace_the_data(vrpca_command, data, kind, monkeypatch):
    monkeypatch.setattr(vrpca.PCA, "fit", lambda *_: pytest.fail("the fit was started"))
    out = alias(data, kind)
    before = contents(data.parent)
    for option in ("--out", "--plot"):
        refused = vrpca_command("fit", data, "-k", 2, option, out)
        assert_refused(*refused, f"{option} {out} would replace DATA {data}")
    assert contents(data.parent) == before


@pytest.mark.parametrize("kind", ALIASES)
@pytest.mark.parametrize("which", ["MODEL", "DATA"])
def test_scores_never_replace_the_model_or_the_data(vrpca_command, model, data, kind, which):
    model = model.rename(model.parent / "model.npy")  # only a .npy file can be taken for the scores
    path = model if which == "MODEL" else data
    out = alias(path, kind)
    before = contents(data.parent)
    refused = vrpca_command("transform", model, data, "--out", out)
    assert_refused(*refused, f"--out {out} would replace {which} {path}")
    assert contents(data.parent) == before


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", ["the same path", "relative path", "detour"])
def test_one_output_never_replaces_another(vrpca_command, data, kind, old):
    out = data.parent / "model.svg"
    if old:
        out.write_text("old")
    before = contents(data.parent)
    plot = alias(out, kind)
    refused = vrpca_command("fit", data, "-k", 2, "--out", out, "--plot", plot)
    assert_refused(*refused, f"--plot {plot} would replace --out {out}")
    assert contents(data.parent) == before


def test_an_old_output_is_replaced(vrpca_command, data, tmp_path):
    out = tmp_path / "model.npz"
    out.write_text("old")
    assert vrpca_command("fit", data, "-k", 2, "--out", out, "--quiet")[0] == 0
    assert vrpca.load(out).n_components_ == 2


def test_models_for_other_columns(vrpca_command, model, tmp_path, X):
    other, out = tmp_path / "other.npy", tmp_path / "scores.npy"
    np.save(other, X[:, :-1])
    assert_refused(*vrpca_command("transform", model, other, "--out", out), "39 columns, but the model is for 40")
    assert_refused(*vrpca_command("check", model, other), "39 features")
    assert not out.exists()


def test_bad_models(vrpca_command, data, model, tmp_path):
    out = tmp_path / "scores.npy"
    assert_refused(*vrpca_command("transform", data, data, "--out", out), "not a vrpca model")
    assert_refused(*vrpca_command("check", tmp_path / "nowhere", data), "no model file")
    assert_refused(*vrpca_command("check", model, model), "is a vrpca model, not data")
    model.write_bytes(model.read_bytes()[:-50])
    assert_refused(*vrpca_command("check", model, data), "damaged")
    assert not out.exists()


def test_scores_that_fail_half_way_leave_the_old_file(vrpca_command, model, tmp_path, X, monkeypatch):
    monkeypatch.setattr(scores, "ROWS", 10)
    bad, out = tmp_path / "bad.npy", tmp_path / "scores.npy"
    out.write_bytes(b"old")
    np.save(bad, with_nan(X, 250, 3))
    before = sorted(tmp_path.iterdir())
    assert_refused(*vrpca_command("transform", model, bad, "--out", out), "NaN")
    assert out.read_bytes() == b"old" and sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space is reserved in another way")
@pytest.mark.parametrize("old", [None, b"old"])
def test_scores_on_a_full_disk(vrpca_command, model, data, tmp_path, old, monkeypatch):
    """The space is reserved before the work. Without that, a map of the file would kill the process."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "scores.npy"
    if old is not None:
        out.write_bytes(old)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(vrpca.PCA, "_transform", lambda *_: pytest.fail("the work was begun"))
    done = vrpca_command("transform", model, data, "--out", out)
    assert_refused(*done, "scores.npy cannot be written: No space left on device. Make room")
    assert sorted(tmp_path.iterdir()) == before and (old is None or out.read_bytes() == old)


def test_interruption(vrpca_command, data, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(vrpca.PCA, "fit", interrupted)
    code, text, err = vrpca_command("fit", data, "-k", 2, "--out", tmp_path / "model.npz")
    assert (code, text, err.strip()) == (130, "", "vrpca: interrupted.")
    assert not (tmp_path / "model.npz").exists()


@pytest.fixture
def interrupted_fit(monkeypatch):
    """Let PCA.fit store an answer that is not good enough yet and then raise KeyboardInterrupt."""
    fit = vrpca.PCA.fit

    def interrupted(self, X):
        fit(self, X)
        self.status_, self.converged_ = vrpca.Status.INTERRUPTED, False
        raise KeyboardInterrupt

    monkeypatch.setattr(vrpca.PCA, "fit", interrupted)


@pytest.mark.usefixtures("interrupted_fit")
def test_interrupted_fit_keeps_its_best_answer(vrpca_command, data, tmp_path):
    out, plot = tmp_path / "model.npz", tmp_path / "plot.svg"
    code, text, err = vrpca_command("fit", data, "-k", 2, "--out", out, "--plot", plot, "--quiet")
    assert (code, err) == (130, "vrpca: interrupted.\n")
    assert text.split()[:2] == ["component", "variance"] and "NOT CONVERGED" in text
    assert text.splitlines()[-2:] == [f"model written to {out}", f"plot written to {plot}"]
    assert vrpca.load(out).components_.shape == (2, 40) and plot.read_text().lstrip().startswith("<?xml")
    code, text, err = vrpca_command("fit", data, "-k", 2, "--json", "--quiet")
    found = json.loads(text)
    assert (code, err, found["status"], found["converged"]) == (130, "vrpca: interrupted.\n", "interrupted", False)


def test_bugs_are_not_hidden(vrpca_command, data, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(vrpca.PCA, "fit", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        vrpca_command("fit", data, "-k", 2)


needs_a_shell = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a POSIX shell")


def in_shell(*arguments, streams=""):
    """Run one command in a shell, with its streams redirected; names must be written to stdout without tricks."""
    command = " ".join([sys.executable, "-m", "vrpca", *map(str, arguments), streams])
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=environment)


@needs_a_shell
def test_a_reader_that_leaves_is_no_error(data):
    done = in_shell("fit", data, "-k 30 --quiet", streams="| true")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@needs_a_shell
@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(data, tmp_path, streams):
    out = tmp_path / "model.npz"
    done = in_shell("fit", data, "-k 2 --out", out, streams=streams)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert vrpca.load(out).components_.shape == (2, 40)


@needs_a_shell
def test_complaints_never_go_to_stdout():
    done = in_shell("fit nowhere.npy -k 2", streams="2>&-")
    assert (done.returncode, done.stdout) == (2, "")


@needs_a_shell
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_output(data):
    done = in_shell("fit", data, "-k 2 --quiet", streams="> /dev/full")
    assert_refused(done.returncode, done.stdout, done.stderr, "the output cannot be written: No space left")
    assert in_shell("fit nowhere.npy -k 2", streams="2> /dev/full").returncode == 2


@needs_a_shell
def test_names_that_cannot_be_printed(data, tmp_path):
    """Names of files are bytes, and need not be text."""
    out = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.npz")
    done = in_shell("fit", data, "-k 2 --quiet --out", out)
    assert done.returncode == 0 and "model written to" in done.stdout.splitlines()[-1] and "udcff" in done.stdout
    assert vrpca.load(out).n_components_ == 2


def test_names_that_no_file_can_have(vrpca_command, data, model):
    for name, word in (
        ("a\0.npy", "null character|null byte"),
        ("\ud800.npy", "cannot encode|surrogates"),
        ("x" * 300 + ".npy", "name too long"),
    ):
        assert_refused(*vrpca_command("fit", name, "-k", 2), word)
        assert_refused(*vrpca_command("transform", model, data, "--out", name), word)
