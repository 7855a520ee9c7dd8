"""``vrpca reproduce`` at the tiny size: the files are written, and their curves agree with the paper's claims."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import scipy.sparse as sp

from vrpca import cli
from vrpca.errors import DataError
from vrpca.experiments.reproduce import claims, curves, page, stages
from vrpca.experiments.reproduce.claims import Finding
from vrpca.experiments.reproduce.curves import Curve, Extent, Method, Problem, Recorder, Stage, follow, states
from vrpca.experiments.reproduce.figures import DIFFERENCE, HYBRID, OJA, POWER, PROJECTION, VR, Panel, axis_end, panel
from vrpca.experiments.reproduce.fits import decay, line
from vrpca.experiments.shared.log import Log
from vrpca.experiments.shared.summary import Table
from vrpca.experiments.shared.synthetic import PaperMatrix
from vrpca.experiments.shared.truth import optimum

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture
def command(capsys):
    """Run one command in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = cli.run(["reproduce", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def problem():
    matrix = PaperMatrix(2000, 40, 0.1)
    return Problem(np.vstack(list(matrix.blocks(np.float64))), 1, matrix.optimum())


def curve(label, solver, errors, per_point=2.0):
    errors = np.array(errors, dtype=float)
    return Curve(label, solver, per_point * np.arange(len(errors)), errors, np.zeros(len(errors)))


def read_curves(path):
    """(data, method) -> Curve, from the CSV file alone."""
    points = {}
    for row in csv.DictReader(path.read_text().splitlines()):
        if row["start"] != "0":
            continue
        points.setdefault((row["data"], row["method"]), []).append(
            [float(row["passes"]), float(row["suboptimality"]), 0.0]
        )
    return {
        key: Curve.of({"method": {"label": key[1], "solver": ""}, "points": found}) for key, found in points.items()
    }


# ------------------------------------------------------------------------------------------- the figures, tiny


@pytest.mark.parametrize(("figure", "plots"), [("fig1", 3), ("fig2", 2), ("fig3", 2)])
def test_figures(command, tmp_path, figure, plots):
    """VR-PCA is first to 1e-10, at an exponential rate; Oja does not get there. Read from the files alone."""
    code, text, err = command(figure, "--size", "tiny", "--out", tmp_path, "--threads", 1)
    assert code == 0, err
    found = read_curves(tmp_path / f"{figure}.csv")
    data = {name for name, _ in found}
    assert len(data) == plots
    for name in data:
        here = {method: curve for (where, method), curve in found.items() if where == name}
        ours = [curve for method, curve in here.items() if method.startswith("VR-PCA")]
        rivals = [curve for method, curve in here.items() if method.startswith(("Oja", "power"))]
        assert len(ours) == (2 if figure == "fig3" else 1) and len(rivals) == 1 + len(OJA)
        assert ("hybrid" in here) is (figure != "fig1")
        slowest = max(curve.passes_to(1e-10) for curve in ours)
        assert math.isfinite(slowest) and all(slowest < curve.passes_to(1e-10) for curve in rivals)
        assert all(curve.passes[-1] >= slowest for curve in rivals), "nobody was stopped before VR-PCA was there"
        starts = np.array([curve.errors[0] for method, curve in here.items() if method != "hybrid"])
        np.testing.assert_allclose(starts, starts[0], rtol=1e-12, err_msg="all begin at one random start")
        for curve in ours:
            assert np.array_equal(np.diff(curve.passes), np.full(len(curve.passes) - 1, 2.0))
            fit = decay(curve)
            assert fit.r2 >= 0.98 and fit.decades >= 6
    for ending in ("csv", "png", "svg", "json", "jsonl"):
        assert (tmp_path / f"{figure}.{ending}").stat().st_size > 1000
    assert not [p for p in tmp_path.iterdir() if p.is_dir()], "generated matrices vanish"
    written = (tmp_path / "reproduction.md").read_text()
    assert claims.FASTER in written and f"({figure}.png)" in written
    assert f"`vrpca reproduce {figure} --size tiny --threads 1`" in written
    assert "cores" in written and "numpy" in written
    assert f"{figure}: {claims.FASTER}: confirmed" in text
    verdicts = {f["claim"]: f["verdict"] for f in json.loads((tmp_path / f"{figure}.json").read_text())["findings"]}
    assert verdicts[claims.EXPONENTIAL] == verdicts[claims.OJA_SLOW] == "confirmed"


def test_resume(command, tmp_path, monkeypatch):
    arguments = ("fig1", "--size", "tiny", "--lambdas", "0.16", "--out", tmp_path, "--threads", 1, "--quiet")
    code, _, err = command(*arguments, "--cache", tmp_path / "cache")
    assert (code, err) == (0, "")
    assert len(list((tmp_path / "cache" / "data").glob("synthetic*.npy"))) == 1
    before = (tmp_path / "fig1.csv").read_text()
    code, _, err = command(*arguments)
    assert code == 2 and "--resume" in err
    log = tmp_path / "fig1.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:4]) + lines[4][:50])  # interrupted in the middle of a line
    followed = []
    follow = curves.follow
    monkeypatch.setattr(curves, "follow", lambda *a: followed.append(a[1].label) or follow(*a))
    code, _, err = command(*arguments, "--resume")
    assert (code, err) == (0, "")
    assert followed == [json.loads(line)["method"]["label"] for line in lines[4:]], "what was there is not done again"
    again = read_curves(tmp_path / "fig1.csv")
    for key, before_it in read_curves_text(before, tmp_path).items():
        np.testing.assert_array_equal(again[key].errors, before_it.errors)
    monkeypatch.setattr(stages, "_mapped", lambda *a: pytest.fail("made data that nobody needs"))
    assert command(*arguments, "--resume")[0] == 0


def read_curves_text(text, folder):
    path = folder / "before.csv"
    path.write_text(text)
    return read_curves(path)


def test_a_page_of_several_runs(tmp_path):
    """Sections of other runs stay, in the paper's order."""
    table = Table("a table", ["x"], [["1"]], ["a note"])
    finding = Finding("a claim", ["one line", "another"], claims.PARTLY)
    for stem in ("scaling", "fig1-paper", "fig1"):
        section = page.Section(stem, f"About {stem}", "vrpca", "here", [finding], [table], [f"{stem}.png"], ["x.csv"])
        path = page.write(section, tmp_path)
    text = path.read_text()
    assert [text.index(f"## About {stem}\n") for stem in ("fig1", "fig1-paper", "scaling")] == sorted(
        text.index(f"## About {stem}\n") for stem in ("fig1", "fig1-paper", "scaling")
    )
    assert text.count("| a claim | one line<br>another | **partly confirmed** |") == 3
    assert text.count("### a table") == 3 and text.count("- a note") == 3


def test_beyond(command, tmp_path):
    code, _, err = command("beyond", "--size", "tiny", "--out", tmp_path, "--threads", 1)
    assert code == 0, err
    found = read_curves(tmp_path / "beyond.csv")
    data = {name for name, _ in found}
    assert len(data) == 6
    for name in data:
        here = {method: curve.passes_to(1e-10) for (where, method), curve in found.items() if where == name}
        assert min(here["krylov"], here["ARPACK"]) < here["power iterations"], "the paper's footnote on Lanczos"
        assert all(math.isfinite(here[m]) for m in ("ARPACK", "randomized SVD", "accelerated, cost=passes"))


# -------------------------------------------------------------------------------------------------------- curves


@pytest.mark.parametrize(
    ("method", "passes"),
    [(VR, [0, 2, 4, 6]), (POWER, [0, 1, 2, 3]), (OJA[3], [0, 1, 2, 3]), (HYBRID, [1, 3, 5, 7])],
)
def test_passes_are_counted_as_in_the_paper(problem, method, passes):
    points = follow(problem, method, Extent(passes[-1]), 0, 1, print)
    assert [point[0] for point in points] == passes


def test_strides_change_the_points_not_the_steps(problem):
    """Oja's draws and step numbers do not depend on the number of points."""
    often, rarely = (follow(problem, OJA[3], Extent(8, stride), 0, 1, print) for stride in (1, 4))
    assert [point[0] for point in rarely] == [0, 4, 8]
    np.testing.assert_allclose([point[1] for point in rarely], [often[point][1] for point in (0, 4, 8)], rtol=1e-9)


def test_copied_rows_are_what_they_are_said_to_be(problem):
    """The same passes, and the same rate up to the draws, as on data that hold every row three times."""
    copied = replace(VR, options=VR.options | {"copies": 3})
    there = Problem(np.vstack([problem.X] * 3), 1, problem.optimum)
    one, two = follow(problem, copied, Extent(10), 0, 1, print), follow(there, VR, Extent(10), 0, 1, print)
    assert [point[0] for point in one] == [point[0] for point in two] == [0, 2, 4, 6, 8, 10]
    rates = [np.log10(points[1][1] / points[-1][1]) for points in (one, two)]
    assert rates[0] == pytest.approx(rates[1], rel=0.15)


def test_data_with_fewer_rows_than_the_papers_also_run_with_copied_rows(problem):
    recorder = Recorder(Log(same=curves.SAME), 0, 1, lambda line: None)
    found = panel("fig2", Stage("X", {"set": "X"}, 1, lambda: problem, copies=4), recorder, 100.0)
    (copied,) = [curve for curve in found.of("vr") if curve.copies == 4]
    assert copied not in found.ours and copied.label == "VR-PCA, every row 4 times"
    assert copied.passes_to(1e-10) < found.ours[0].passes_to(1e-10)
    assert len(found.again) == 9


def test_only_points_that_nothing_beats_are_shown():
    points = [[20.0, 1e-12, 0.1], [8.0, 1e-3, 0.1], [9.0, 1e-2, 0.1], [25.0, 1e-12, 0.1], [10.0, 1e-4, 0.1]]
    assert [point[0] for point in curves._only_the_best(points)] == [8, 10, 20]


@pytest.mark.parametrize("method", [DIFFERENCE, PROJECTION])
def test_blocks_have_k_columns(method, rng):
    X = rng.standard_normal((500, 30)) * np.geomspace(1, 0.1, 30)
    problem = Problem(X, 4, optimum(X, 4))
    state = next(states(problem, *problem.read(1), method, 0))
    assert state.vectors().shape == (30, 4)


def test_the_step_is_the_papers(problem):
    """The step eta = 1 / (rbar sqrt n), given as a number, makes the same curve."""
    n = len(problem.X)
    eta = 1 / (np.sum(problem.X**2) / n * np.sqrt(n))
    given = Method(VR.label, "vr", {"step": float(eta), "epoch_length": n})
    one, two = (follow(problem, method, Extent(6), 0, 1, print) for method in (VR, given))
    np.testing.assert_allclose([p[1] for p in one], [p[1] for p in two], rtol=1e-6)


def test_curves_end_where_rounding_ends_them(problem):
    X = problem.X.astype(np.float32)
    points = follow(Problem(X, 1, problem.optimum), VR, Extent(10_000), 0, 1, print)
    assert points[-1][0] < 200 and points[-1][1] < 1e-10


def test_the_expected_advantage_is_found(rng):
    """With too few rows for the spectrum, power iterations are ahead, by the factor that the page states."""
    values = np.r_[1, 0.9, np.full(60, 0.5)]
    X = np.linalg.qr(rng.standard_normal((1000, 62)))[0] * np.sqrt(1000 * values)
    problem = Problem(X, 1, optimum(X, 1))
    rates = []
    for method in (VR, POWER):
        points = np.array(follow(problem, method, Extent(2000), 0, 1, print))
        late = points[(points[:, 1] < 1e-4) & (points[:, 1] > 1e-12)]
        rates.append(-line(late[:, 0], np.log(late[:, 1])).slope)
    assert problem.advantage == pytest.approx(np.sqrt(1000) * 0.9 / (2 * values.sum()), rel=1e-9)
    assert rates[0] / rates[1] == pytest.approx(problem.advantage, rel=0.25)


def test_longer_curves_are_made_anew(problem):
    recorder = Recorder(Log(same=curves.SAME), 0, 1, lambda line: None)
    stage = Stage("X", {"set": "X"}, 1, lambda: problem)
    assert recorder.curve(stage, POWER, Extent(3)).passes[-1] == 3
    assert recorder.curve(stage, POWER, Extent(2)).passes[-1] == 3
    assert recorder.curve(stage, POWER, Extent(5)).passes[-1] == 5
    assert len(recorder.log.results) == 1


def test_long_curves_tell_how_far_they_are(problem, monkeypatch):
    monkeypatch.setattr(curves, "TELL", -1.0)
    lines = []
    follow(problem, VR, Extent(6), 0, 1, lines.append)
    assert len(lines) == 3 and "4 of at most 6 passes" in lines[-1]


# -------------------------------------------------------------------------------------------------------- claims


def plot(ours, *others, end=40.0):
    return Panel("X", 1, end, (ours, *others))


def test_verdicts_follow_the_curves():
    """The same code confirms good curves and rejects bad ones."""
    good = curve("VR-PCA", "vr", 10.0 ** -np.arange(0, 14))
    slow = curve("VR-PCA", "vr", 10.0 ** -np.arange(0, 14, 0.25))
    power = curve("power iterations", "power", 10.0 ** -(np.arange(0, 13) / 1.5), 2.0)
    oja = curve("Oja, c = 1/gap", "oja", 1 / (1 + np.arange(20.0)), 1.0)
    straight = curve("Oja, c = 1/gap", "oja", 10.0 ** -np.arange(0.0, 4, 0.2), 1.0)
    assert claims.first_to_target(plot(good, power, oja))[0]
    quick = curve("power iterations", "power", 10.0 ** -np.arange(12.0))
    holds, text = claims.first_to_target(plot(slow, quick, oja))
    assert not holds and "times the speed of power iterations" in text
    again = Panel("X", 1, 40.0, (good, power, oja), ((slow, good, quick),))
    assert not claims.first_to_target(again)[0] and claims.hybrid_helps(plot_with_hybrid(good, slow))[0]
    assert claims.exponential(plot(good))[0] and not claims.exponential(plot(oja_like()))[0]
    assert claims.subexponential(plot(good, oja))[0] and not claims.subexponential(plot(good, straight))[0]
    assert claims.immediate(plot(good))[0] and not claims.immediate(plot(late()))[0]


def plot_with_hybrid(fast, slow):
    """The hybrid is behind from the first start, and ahead from two others."""
    behind = Curve("hybrid", "hybrid", slow.passes, slow.errors, slow.seconds)
    return Panel("X", 1, 40.0, (fast, behind), ((slow, fast, slow), (slow, fast, slow)))


def oja_like():
    return curve("VR-PCA", "vr", 1e-2 / (1 + np.arange(200.0)) ** 3)


def late():
    return curve("VR-PCA", "vr", np.r_[1, np.full(8, 1e-3), 10.0 ** -np.arange(3.0, 13)])


def test_axes_end_after_vr_pca_has_arrived():
    fast, slow = curve("VR-PCA", "vr", 10.0 ** -np.arange(14)), curve("VR-PCA", "vr", 10.0 ** -np.arange(0, 14, 0.1))
    assert axis_end([fast]) == 30 and axis_end([fast, slow]) == 220
    assert axis_end([curve("VR-PCA", "vr", np.full(51, 0.5))]) == 110


def test_lines():
    x = np.arange(20.0)
    fit = line(x, 3 - 2 * x + np.random.default_rng(0).standard_normal(20))
    assert fit.low < -2 < fit.high and fit.margin < 0.2 and fit.r2 > 0.98
    assert line([0, 1], [0, 1]).margin == math.inf


# ---------------------------------------------------------------------------------------------------------- data


def test_files_of_the_user(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (60, 16), dtype=np.uint8)
    pixels[:, 3] = 7
    np.savez(tmp_path / "mnist.npz", X=pixels, y=np.zeros(60))
    words = sp.hstack([sp.csr_matrix((50, 4)), sp.random(50, 30, 0.5, "csr", np.float32, rng)])
    sp.save_npz(tmp_path / "rcv1.npz", words.tocsr())
    files = stages.Files(tmp_path / "mnist.npz", tmp_path / "rcv1.npz")
    one, two = stages.real(files, stages.SIZES["default"], {stages.MNIST: 2, stages.RCV1: 1})
    assert (one.title, two.title) == ("MNIST (60 x 16), k = 2", "RCV1 (50 x 30), k = 1")
    X = one.problem.X
    np.testing.assert_allclose(X.std(axis=0), np.where(np.arange(16) == 3, 0, 1 / 4), atol=1e-12)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    assert two.problem.X.dtype == np.float64 and sp.issparse(two.problem.X)
    assert two.problem.X.shape == (50, 30), "empty columns are left out"
    assert one.data["key"] != two.data["key"]


def test_rcv1_itself():
    """On the real data, where they are present, VR-PCA is ahead of power iterations without tuning."""
    path = DATA / "rcv1.npz"
    if not path.exists():
        pytest.skip(f"{path} is absent: its licence does not let us ship it")
    (stage,) = stages.real(stages.Files(rcv1=path), stages.SIZES["default"], {stages.RCV1: 1})
    passes = []
    for method in (VR, POWER):
        points = follow(stage.problem, method, Extent(60), 0, 1, print)
        passes.append(next(p for p, error, _ in points if error <= 1e-10))
    assert passes[0] < passes[1]


@pytest.mark.parametrize(("what", "fetcher"), [("MNIST", "fetch_openml"), ("RCV1", "fetch_rcv1")])
def test_no_network(monkeypatch, what, fetcher):
    def offline(*arguments, **options):
        raise URLError("Name or service not known")

    monkeypatch.setattr(f"sklearn.datasets.{fetcher}", offline)
    with pytest.raises(DataError, match=rf"{what} could not be fetched .*--{what.lower()}"):
        stages.fetched(what)


def test_no_network_on_the_command_line(command, tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *a, **k: (_ for _ in ()).throw(URLError("offline")))
    code, text, err = command("fig2", "--out", tmp_path / "out")
    assert (code, text) == (2, "") and err.startswith("vrpca: MNIST could not be fetched") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("fig4", "fig4"),
        ("fig1 --size huge", "huge"),
        ("fig1 --lambdas small", "--lambdas small"),
        ("fig1 --lambdas 0.9", "0.9"),
        ("fig2 --lambdas 0.16", "--lambdas"),
        ("fig2 --size paper", "--size paper"),
        ("fig1 --seed -1", "--seed -1"),
        ("fig1 --threads 0", "--threads 0"),
        ("fig2 --size tiny --rcv1 nowhere.npz", "nowhere.npz"),
        ("fig2 --mnist nowhere.npz", "nowhere.npz"),
        ("fig2 --mnist vector.npy", "vector.npy"),
        ("fig1 --out file", "folder"),
        ("fig1 --colour red", "--colour"),
    ],
)
def test_bad_input(command, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    np.save(tmp_path / "vector.npy", np.zeros(3))
    code, text, err = command(*arguments.split())
    assert (code, text) == (2, "") and err.startswith("vrpca: ") and err.count("\n") == 1
    assert word in err


def test_without_matplotlib(command, tmp_path, monkeypatch):
    monkeypatch.setattr("vrpca.experiments.shared.plots.can_plot", lambda: False)
    code, _, err = command("fig1", "--size", "tiny", "--out", tmp_path / "out")
    assert code == 2 and "matplotlib" in err and "vrpca[plot]" in err


def test_foreign_files_in_the_folder(command, tmp_path):
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "fig2.json").write_text("{}")
    code, text, err = command("fig1", "--size", "tiny", "--lambdas", "0.16", "--out", tmp_path, "--quiet")
    assert (code, text) == (2, "") and "fig2.json" in err
    assert not (tmp_path / "fig1.jsonl").exists(), "found before anything was run"


@pytest.mark.parametrize(
    ("what", "name"), [("fig2", "fig2.csv"), ("fig2", "reproduction.md"), ("all", "scaling-gap.csv")]
)
@pytest.mark.parametrize("option", ["--mnist", "--rcv1"])
def test_results_never_replace_the_data(command, tmp_path, monkeypatch, what, name, option):
    monkeypatch.setattr("vrpca.experiments.reproduce.commands.reproduce", lambda *_, **__: pytest.fail("started"))
    data = tmp_path / name
    data.write_bytes(b"data")
    code, text, err = command(what, option, data, "--size", "tiny", "--out", tmp_path)
    assert (code, text) == (2, "") and f"--out {data} would replace {option} {data}" in err
    assert [path.name for path in tmp_path.iterdir()] == [name] and data.read_bytes() == b"data"
