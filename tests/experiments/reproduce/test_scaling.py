"""The scaling study at the tiny size: exponents near those of the theory, stored rows, written files."""

import csv

import numpy as np
import pytest

from vrpca import cli
from vrpca.experiments.reproduce import drawing, scaling, scaling_claims
from vrpca.experiments.reproduce.commands import reproduce
from vrpca.experiments.reproduce.scaling import SAME, STUDIES, TINY, Study
from vrpca.experiments.shared.log import Log


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of one run, which all tests share."""
    out = tmp_path_factory.mktemp("scaling")
    reproduce("scaling", size="tiny", out=out, threads=1, quiet=True)
    return out


@pytest.fixture(scope="module")
def study(folder):
    again = Study(Log(folder / "scaling.jsonl", resume=True, same=SAME), print, 1)
    for part in STUDIES:
        part(again, TINY)
    return again


def test_convergence_is_exponential(study):
    rows = [r for name in ("gap", "rows", "starts") for r in study.rows(name)]
    assert np.mean([r["r2"] >= 0.98 and r["decades"] >= 6 for r in rows]) >= 0.9
    assert all(r["passes"] is not None for r in rows)


def test_exponents_of_the_gap(study):
    """By the formulas for step and epoch length: 1 with the paper's step, 2 with Theorem 1's parameters."""
    assert 0.7 < scaling_claims.gap_exponent(study.rows("gap")).slope < 1.2
    assert 1.4 < scaling_claims.gap_exponent(study.rows("theorem 1")).slope < 2.4


def test_exponents_of_n(study):
    few, many = scaling_claims.ends(study.rows("rows"))
    slopes = [scaling_claims.power_law(*scaling.columns_of(part, "n", "rows")).slope for part in (few, many)]
    assert 0.2 < slopes[0] < 0.9 and 0.5 < slopes[1] < 1.2


class Made(Study):
    """A study with invented rows."""

    def __init__(self, **rows):
        super().__init__(Log(same=SAME), print, 1)
        self.made = {name.replace("_", " "): found for name, found in rows.items()}

    def rows(self, study):
        return self.made[study]


GAPS, SIZES = np.geomspace(0.001, 0.01, 6), (500, 1000, 2000, 3000, 16000, 32000, 64000)


def grown(passes):
    """A study in which passes are this function of n and lambda."""
    gap = [{"n": 1000, "gap": g, "passes": passes(1000, g)} for g in GAPS]
    rows = [{"n": n, "gap": 0.05, "rows": n * passes(n, 0.05), "passes": 1.0} for n in SIZES]
    return Made(gap=gap, rows=rows, theorem_1=[row | {"passes": row["gap"] ** -2} for row in gap])


@pytest.mark.parametrize(
    ("passes", "verdict"),
    [
        (lambda n, g: 1 + 1 / (g * np.sqrt(n)), "confirmed"),
        (lambda n, g: 1 / g, "partly confirmed"),  # power iterations: a product
        (lambda n, g: (1 + 1 / (g * np.sqrt(n))) ** 3, "partly confirmed"),
    ],
)
def test_the_verdict_on_the_runtime_follows_the_rows(passes, verdict):
    assert scaling_claims.runtime(grown(passes)).verdict == verdict


@pytest.mark.parametrize(("per_column", "confirmed"), [(0.0, True), (40.0, True), (20000.0, False)])
def test_the_verdict_on_the_cost_of_an_epoch(per_column, confirmed):
    rng = np.random.default_rng(0)
    rows = [
        {"n": 20000, "d": d, "entries": e, "seconds": (1e-3 + 1e-9 * (e + per_column * d)) * rng.uniform(0.95, 1.05)}
        for d in (1000, 4000, 16000, 64000)
        for e in (10**5, 10**6)
    ]
    assert (scaling_claims.epoch_cost(Made(cost=rows)).verdict == "confirmed") is confirmed


@pytest.mark.parametrize(("kept", "verdict"), [(99, "confirmed"), (57, "undecided"), (30, "not confirmed")])
def test_the_verdict_on_the_promise(kept, verdict):
    rows = [{"delta": 0.05, "epsilon": 1e-2, "error": 0.0 if i < kept else 1.0} for i in range(100)]
    assert scaling_claims.probability(Made(promise=rows, starts=[{"passes": 10}])).verdict == verdict


@pytest.mark.parametrize(("hits", "verdict"), [((40, 64, 87), "confirmed"), ((64, 64, 64), "not confirmed")])
def test_the_verdict_on_restarts(hits, verdict):
    rows = [
        {"restarts": number, "epochs": 5, "error": 0.0 if i < hit else 1.0}
        for number, hit in zip(scaling.RESTARTS, hits, strict=True)
        for i in range(100)
    ]
    assert scaling_claims.restarts(Made(restarts=rows)).verdict == verdict


def test_runs_that_fail_count():
    good = {"r2": 1.0, "r2_whole": 1.0, "decades": 9.0, "burn_in": 0.1, "passes": 20.0, "gap": 0.05}
    failed = {"passes": None, "rows": None, "gap": 0.05}
    study = Made(gap=[good], rows=[good], starts=[good, failed])
    assert scaling_claims.exponential(study).verdict == "partly confirmed"
    assert scaling_claims.burn_in(study).verdict == "not confirmed"
    assert scaling_claims.exponential(Made(gap=[failed], rows=[], starts=[])).verdict == "not confirmed"


def test_restarts_help(study):
    hits = {
        number: sum(r["error"] <= 1e-10 for r in study.rows("restarts") if r["restarts"] == number)
        for number in scaling.RESTARTS
    }
    assert hits[4] >= hits[1] and hits[4] > TINY.starts / 2


def test_the_theorem_keeps_its_promise(study):
    assert all(r["error"] <= r["epsilon"] for r in study.rows("promise"))


def test_heavy_rows_slow_uniform_draws_down_and_not_those_by_norm(study):
    def rate(sampling, ratio):
        found = [r["rate"] for r in study.rows("norms") if (r["sampling"], r["ratio"]) == (sampling, ratio)]
        return np.mean(found)

    assert rate("uniform", 16) < 0.8 * rate("uniform", 1)
    assert rate("norm", 16) > 0.8 * rate("norm", 1)


def test_files(folder):
    page = (folder / "reproduction.md").read_text()
    for word in ("open question", "95% interval", "burn-in", "amplify", "scaling-gap.csv"):
        assert word in page
    for ending in ("png", "svg", "json", "jsonl"):
        assert (folder / f"scaling.{ending}").stat().st_size > 1000
    rows = list(csv.DictReader((folder / "scaling-gap.csv").read_text().splitlines()))
    assert len(rows) == TINY.seeds * len(TINY.gaps) and {"gap", "passes", "rate", "r2", "looks"} <= set(rows[0])


def test_rows_of_another_size_do_not_count(folder):
    other = Study(Log(folder / "scaling.jsonl", resume=True, same=SAME), print, 1)
    assert other.rows("gap") == [] and len(other.log.results) > 50
    other.measure("gap", {"n": 1, "d": 1, "gap": 0.1, "seed": 0}, lambda passes: {"passes": passes}, 7.0)
    assert [row["passes"] for row in other.rows("gap")] == [7.0]


def test_nothing_is_measured_twice(folder, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "run", lambda *a: pytest.fail("measured again"))
    monkeypatch.setattr(scaling, "states", lambda *a: pytest.fail("measured again"))
    monkeypatch.setattr(drawing, "scaling", lambda *a: [])
    arguments = ["reproduce", "scaling", "--size", "tiny", "--out", str(folder), "--threads", "1", "--resume", "-q"]
    assert cli.run(arguments) == 0
    assert "scaling: the convergence is exponential, after the burn-in: " in capsys.readouterr().out
