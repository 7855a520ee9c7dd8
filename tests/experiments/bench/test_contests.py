"""Contests: ladders of settings, what counts for a target, how failures are reported, which results are kept."""

import json
from dataclasses import replace

import numpy as np
import pytest

from vrpca.errors import DataError, OptionError
from vrpca.experiments.bench import measure
from vrpca.experiments.bench.contests import contenders, contest, fastest, honest, ours
from vrpca.experiments.bench.measure import Conditions, Contender, Session
from vrpca.experiments.bench.peers import PEERS
from vrpca.experiments.bench.roofline import Rates
from vrpca.experiments.bench.roofline import measure as measure_rates
from vrpca.experiments.bench.summary import contest_table, ratios_table
from vrpca.experiments.shared.datasets import prepare
from vrpca.experiments.shared.log import Log

TARGETS = (1e-3, 1e-6)
RATES = Rates(cores=2, threads=2, instruction_set="avx2", bandwidth=1e10, flops=1e11)
RANDOMIZED = "sklearn TruncatedSVD randomized"


def ok(seconds, truth, peer=RANDOMIZED, **setting):
    measured = {"status": "ok", "seconds": seconds, "truth": truth, "passes": 4.0, "memory": 2**20}
    return {"contender": peer, "peer": peer, "setting": setting, **measured}


@pytest.fixture
def data(tmp_path):
    return prepare("power-law", tmp_path, small=True)


@pytest.fixture
def play(monkeypatch, data, tmp_path):
    """A contest without processes: a function of the job returns what a process would report."""

    def run(actor, rivals, targets=TARGETS, log=None, timeout=60.0):
        jobs = []

        def launch(job):
            jobs.append(job)
            return actor(job)

        monkeypatch.setattr(measure, "launch", launch)
        lines = []
        session = Session(Conditions(threads=1, timeout=timeout), log or Log(), tmp_path, lines.append)
        found = contest(data, 2, rivals, targets, session)
        return found, jobs, lines

    return run


def climbing(job):
    """A peer: each power iteration gains two digits and takes a second."""
    q = job["setting"]["n_iter"]
    return {k: v for k, v in ok(1.0 + q, 10.0 ** (-2 * q - 1)).items() if k not in ("contender", "peer", "setting")}


def test_the_fastest_setting_that_reaches_the_target_counts():
    results = [
        ok(3, 1e-7),
        ok(1, 1e-2),
        ok(2, 5e-4),
        ok(5, 1e-12),
        {"status": "error", "peer": RANDOMIZED, "setting": {}},
    ]
    assert fastest(results, 1e-3)["seconds"] == 2
    assert fastest(results, 1e-6)["seconds"] == 3
    assert fastest(results, 1e-10)["seconds"] == 5
    assert fastest(results, 1e-13) is None
    assert fastest([ok(1, float("nan"))], 1e-3) is None


def test_a_certified_result_counts_only_for_the_tolerance_asked_for():
    lucky = ok(1, 1e-12, "vrpca", tol=1e-3)
    asked = ok(2, 1e-12, "vrpca", tol=1e-6)
    assert fastest([lucky, asked], 1e-3) is lucky
    assert fastest([lucky, asked], 1e-6) is asked


def test_a_ladder_ends_where_the_smallest_target_is_reached(play):
    found, jobs, _ = play(climbing, [Contender(RANDOMIZED, RANDOMIZED)])
    assert [job["setting"]["n_iter"] for job in jobs] == [0, 1, 2, 4]
    assert [found.best(RANDOMIZED, target)["setting"]["n_iter"] for target in TARGETS] == [1, 4]


def test_the_fastest_peer_of_each_target_is_compared(play):
    def actor(job):
        if job["peer"] == "vrpca":
            found = ok(2.0, 1e-7, "vrpca") | {"certificate": 1e-7}
        else:
            slow = job["contender"] == "slow"
            found = ok(8.0 if slow else 1.0, 1e-7 if slow else 1e-4)
        return {k: v for k, v in found.items() if k not in ("contender", "peer", "setting")}

    rivals = [ours("auto"), Contender("quick", RANDOMIZED), Contender("slow", RANDOMIZED)]
    found, _, _ = play(actor, rivals, (1e-3, 1e-6, 1e-9))
    table = ratios_table([found])
    assert table.header == ["data", *(c for t in ("03", "06", "09") for c in (f"s at 1e-{t}", "fastest peer", "ratio"))]
    cells = ["2", "quick 1", "**0.50**", "2", "slow 8", "4.00", "missed", "none", ""]
    assert table.rows == [["power-law-small, k = 2", *cells]]
    assert ratios_table([]).rows == []


@pytest.mark.parametrize(("status", "tried"), [("error", 7), ("timeout", 1), ("killed", 1)])
def test_failures_are_reported_and_not_fatal(play, status, tried):
    def failing(job):
        return climbing(job) if job["contender"] == "other" else {"status": status, "message": "no luck"}

    found, jobs, lines = play(failing, [Contender("bad", RANDOMIZED), Contender("other", RANDOMIZED)])
    assert sum(job["contender"] == "bad" for job in jobs) == tried
    assert found.best("bad", 1e-3) is None and found.best("other", 1e-3) is not None
    assert any(status in line and "no luck" in line for line in lines)
    table = contest_table(found, RATES)
    assert next(row for row in table.rows if row[0] == "bad")[1] == status
    assert any("no luck" in note for note in table.notes)


def test_real_failures(data, tmp_path):
    """With real processes: a peer that raises, and one that takes too long."""
    for timeout, status in ((60.0, "error"), (0.01, "timeout")):
        session = Session(Conditions(threads=1, repeats=1, timeout=timeout), Log(), tmp_path, print)
        result = session.measure(Contender("raises", RANDOMIZED), {"n_iter": -1}, data, 2, np.ones(2))
        assert result["status"] == status and result["message"]


def test_a_process_that_dies_is_a_result(monkeypatch):
    job = {"threads": 1, "timeout": 60.0}
    monkeypatch.setattr(measure.sys, "executable", "/bin/false")
    assert measure.launch(job) == {"status": "error", "message": "exit code 1"}


def test_peers_that_cannot_take_part_are_named(play, monkeypatch):
    monkeypatch.setattr(PEERS["fbpca"], "module", "no_such_package")
    rivals = [Contender("fbpca", "fbpca"), Contender("sklearn IncrementalPCA", "sklearn IncrementalPCA")]
    monkeypatch.setattr(PEERS["sklearn IncrementalPCA"], "cannot", lambda task: "is tired")
    found, jobs, _ = play(climbing, rivals)
    assert not jobs
    assert found.absent == {
        "fbpca": "not installed (package no_such_package)",
        "sklearn IncrementalPCA": "cannot: is tired",
    }
    assert contest_table(found, RATES).rows == []


def test_results_are_kept_and_not_repeated(play, tmp_path):
    path, rivals = tmp_path / "log.jsonl", [Contender("a", RANDOMIZED)]
    first, jobs, _ = play(climbing, rivals, log=Log(path))
    assert len(jobs) == len(path.read_text().splitlines()) == 4
    with path.open("a") as file:
        file.write('{"cut of')
    again, jobs, _ = play(climbing, rivals, log=Log(path, resume=True))
    assert not jobs and again.results == first.results
    with pytest.raises(OptionError, match="--resume"):
        Log(path)
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(DataError, match="Line 1"):
        Log(path, resume=True)


@pytest.mark.parametrize(
    ("status", "timeout", "repeated"), [("error", 60, True), ("timeout", 60, False), ("timeout", 90, True)]
)
def test_what_failed_is_tried_again_if_that_may_help(play, tmp_path, status, timeout, repeated):
    path, rivals = tmp_path / "log.jsonl", [Contender("a", RANDOMIZED)]
    play(lambda job: {"status": status, "message": ""}, rivals, log=Log(path))
    found, jobs, _ = play(climbing, rivals, log=Log(path, resume=True), timeout=timeout)
    assert bool(jobs) is repeated
    assert (found.best("a", 1e-3) is not None) is repeated


def test_an_interrupted_contest_keeps_what_was_measured(play, tmp_path):
    path = tmp_path / "log.jsonl"

    def interrupted(job):
        if job["setting"]["n_iter"] == 2:
            raise KeyboardInterrupt
        return climbing(job)

    with pytest.raises(KeyboardInterrupt):
        play(interrupted, [Contender("a", RANDOMIZED)], log=Log(path))
    assert [json.loads(line)["setting"]["n_iter"] for line in path.read_text().splitlines()] == [0, 1]


def test_certificates_are_compared_with_the_truth(play):
    def overconfident(job):
        found = ok(1.0, 1e-4)
        return {"certificate": 1e-5, "status": "ok"} | {k: found[k] for k in ("seconds", "truth", "passes", "memory")}

    found, _, lines = play(overconfident, [ours("auto")])
    assert [honest(result) for result in found.results] == [False, False]
    assert sum("BELOW THE TRUTH" in line for line in lines) == 2
    assert any("in 0 of 2 runs" in note for note in contest_table(found, RATES).notes)


@pytest.mark.parametrize(("load", "warned"), [(None, False), (1.5, False), (2.5, True)])
def test_a_busy_machine_is_noted(play, monkeypatch, load, warned):
    monkeypatch.setattr(measure, "load_average", lambda: load)
    found, *_ = play(climbing, [Contender("a", RANDOMIZED)])
    assert any("load average up to 2.5" in note for note in contest_table(found, RATES).notes) is warned


def test_the_limit_of_a_pass(data):
    n, d = data.shape
    assert RATES.limit(data, 3.0) == pytest.approx(3 * 4 * n * d / 1e10)
    assert RATES.limit(replace(data, nnz=1000), 1.0) == pytest.approx(8000 / 1e10)


def test_the_table_compares_times_with_the_limit(play, data):
    found, *_ = play(climbing, [Contender("a", RANDOMIZED)])
    table = contest_table(found, RATES)
    best = found.best("a", 1e-3)
    column = table.header.index("roof")
    assert table.rows[0][column] == f"{best['seconds'] / RATES.limit(data, best['passes']):.3g}"


def test_rates_are_measured():
    rates = measure_rates(1, size=1 << 20)
    assert rates.bandwidth > 0 and rates.flops > 0 and rates.threads == 1
    assert rates.instruction_set in str(rates) and rates.as_json()["flops"] == rates.flops


def test_contenders_by_name():
    assert ours("vr:oversample=4:sampling=norm").options == {"solver": "vr", "oversample": 4, "sampling": "norm"}
    names = [rival.name for rival in contenders(["auto", "vr"], ["PROPACK", "fb"])]
    assert names == ["vrpca auto", "vrpca vr", "scipy svds propack", "fbpca"]
    assert len(contenders(["auto"])) == len(PEERS)
    assert [rival.name for rival in contenders(["auto"], [])] == ["vrpca auto"]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ours("magic"), "magic"),
        (lambda: ours("vr:colour=red"), "colour"),
        (lambda: ours("vr:tol=1"), "tol"),
        (lambda: ours("vr:oversample"), "option=value"),
        (lambda: contenders(["auto"], ["nobody"]), "nobody"),
        (lambda: Conditions(threads=0), "threads = 0"),
        (lambda: Conditions(threads=1, timeout=0), "timeout = 0"),
    ],
)
def test_bad_options(call, word):
    with pytest.raises(OptionError, match=word):
        call()


def test_k_out_of_range(data, tmp_path):
    with pytest.raises(OptionError, match="k = 61"):
        contest(data, 61, [], TARGETS, Session(Conditions(1), Log(), tmp_path, print))


def test_the_bench_module_names_no_solver():
    """Solvers come from the registry, so that a new one needs no change here."""
    from vrpca.solvers import SOLVERS

    assert {ours(name).options["solver"] for name in SOLVERS} == set(SOLVERS)
    assert ours("auto").options == {"solver": "auto"}
