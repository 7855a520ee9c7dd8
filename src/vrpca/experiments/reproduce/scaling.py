"""The paper's claims about growth as measurements: how passes, rows and seconds change with one quantity.

Every measurement is one row of numbers. It is stored with the name of its study and with the setting that was varied.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import vrpca
from vrpca.experiments.reproduce.curves import TARGET, Curve, Extent, Method, Problem, follow, states
from vrpca.experiments.reproduce.fits import decay
from vrpca.experiments.shared.log import Log, Result, Say
from vrpca.experiments.shared.optimum import Optimum
from vrpca.experiments.shared.synthetic import PaperMatrix
from vrpca.options import Theory

SAME = ("study", "setting")  # two stored rows are of the same measurement if these entries agree
DELTA = 0.5  # Theorem 1's failure probability per epoch in the sweep of the gap; steps grow like 1 / DELTA^2


@dataclass(frozen=True)
class Sweep:
    """What is varied, and how often. The values span the range that takes minutes; `TINY` takes seconds."""

    seeds: int = 3  # repetitions per setting, each with its own data, start and draws
    shape: tuple[int, int] = (4000, 60)  # rows and features, where they are not varied
    # gaps: the paper's lambda; theory_gaps: the same with the parameters of Theorem 1, which take many more steps
    gaps: tuple[float, ...] = (0.002, 0.003, 0.0045, 0.0067, 0.01, 0.015, 0.023, 0.034, 0.05, 0.08, 0.12, 0.2)
    theory_gaps: tuple[float, ...] = (0.03, 0.045, 0.067, 0.1, 0.15)
    rows: tuple[int, ...] = (500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000)  # numbers of rows
    starts: int = 100  # random starts
    per_row: tuple[int, ...] = (5, 10, 20, 40, 80, 160)  # entries per row of sparse data
    features: tuple[int, ...] = (1000, 4000, 16000, 64000, 256000)  # features of sparse data
    sparse_rows: int = 20000  # rows of sparse data
    norms: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  # squared norm of a heavy row over the mean
    norms_shape: tuple[int, int] = (3200, 25)  # rows and features of the matrices with heavy rows


TINY = Sweep(
    seeds=2,
    shape=(1000, 12),
    gaps=(0.015, 0.03, 0.045, 0.09),
    theory_gaps=(0.05, 0.1, 0.2),
    rows=(250, 500, 16000, 32000),
    starts=8,
    per_row=(5, 20, 80),
    features=(500, 2000, 8000),
    sparse_rows=2000,
    norms=(1, 16),
    norms_shape=(800, 12),
)
FIXED_GAP = 0.05  # the gap where it is not varied: the second of the paper's
STEPS = tuple(2.0 ** (j / 2) for j in range(-8, 11))  # grid for the best step, from 1/16 to 32 times the paper's step
LONG = 4.0  # the longest step of the grid where rows are heavy; the best one is at most 1 there
CAP = 20_000.0  # effective passes of a run, at most: ten times what the slowest runs, by Theorem 1, need
PATIENT = 120.0  # the same for a step that may be too long: good steps need 20
RESTARTS = (1, 2, 4)  # runs of which the best one counts


class Study:
    """Measures what is not in the log yet, and adds it to the log."""

    def __init__(self, log: Log, say: Say, threads: int, seed: int = 0):
        self.log, self.say, self.threads, self.seed = log, say, threads, seed
        self.results: list[Result] = []  # results of this size; the log may hold those of another one, too

    def measure(
        self, study: str, setting: dict[str, Any], compute: Callable[..., dict[str, Any]], *arguments: Any
    ) -> Result:
        """One row: from the log, or computed from these arguments."""
        asked = {"study": study, "setting": setting}
        known = self.log.find(asked)
        if known is None:
            known = asked | {"status": "ok"} | compute(*arguments)
            self.log.add(known)
        self.results.append(known)
        return known

    def seeds(self, count: int) -> range:
        """`count` seeds, from the user's on."""
        return range(self.seed, self.seed + count)

    def rows(self, study: str) -> list[Result]:
        """All rows of a study: the setting and the result of each as one dictionary."""
        return [r["setting"] | r for r in self.results if r["study"] == study]


@lru_cache(maxsize=4)
def problem_for(n: int, d: int, gap: float, seed: int, heavy: int = 0) -> Problem:
    """The paper's matrix, in memory and in double precision."""
    matrix = PaperMatrix(n, d, gap, seed, heavy)
    return Problem(np.vstack(list(matrix.blocks(np.float64))), 1, matrix.optimum())


def run(problem: Problem, method: Method, seed: int, threads: int, longest: float = CAP) -> Curve:
    """The curve of one run."""
    points = follow(problem, method, Extent(longest), seed, threads, lambda line: None)
    return Curve.of({"method": {"label": method.label, "solver": method.solver}, "points": points})


def summary(curve: Curve, n: int) -> dict[str, Any]:
    """A run as a row: passes and rows to the target, and the fit of its decay."""
    found = decay(curve)
    passes = curve.passes_to(TARGET)
    return {
        "passes": passes if math.isfinite(passes) else None,
        "rows": passes * n if math.isfinite(passes) else None,
        **({} if found is None else found.stored()),
    }


def vr(problem: Problem, step: float = 1.0, **options: Any) -> Method:
    """VR-PCA with a multiple of the paper's step."""
    n = problem.X.shape[0]
    trace = float(np.sum(problem.X**2)) / n
    return Method("VR-PCA", "vr", {"step": step / (trace * math.sqrt(n)), **options})


# -------------------------------------------------------------------------------------------------------- studies


def gap_study(study: Study, sweep: Sweep) -> None:
    """Passes as the gap shrinks: with the paper's step, the best step of a grid, and Theorem 1's step."""
    n, d = sweep.shape
    for seed in study.seeds(sweep.seeds):
        for gap in sweep.gaps:
            setting = {"n": n, "d": d, "gap": gap, "seed": seed}
            study.measure("gap", setting, untuned, n, d, gap, seed, seed, study.threads)
            study.measure("best step", setting, _best, n, d, gap, seed, study.threads)
        for gap in sweep.theory_gaps:
            setting = {"n": n, "d": d, "gap": gap, "seed": seed, "delta": DELTA}
            study.measure("theorem 1", setting, _by_theorem, n, d, gap, seed, study.threads)
    study.say("the gap has been varied")


def untuned(n: int, d: int, gap: float, seed: int, start: int, threads: int) -> dict[str, Any]:
    """One run with the paper's parameters, on the matrix of a seed and from one of the random starts."""
    problem = problem_for(n, d, gap, seed)
    return summary(run(problem, vr(problem), start, threads), n)


def _by_theorem(n: int, d: int, gap: float, seed: int, threads: int) -> dict[str, Any]:
    problem = problem_for(n, d, gap, seed)
    return summary(run(problem, theorem(problem, DELTA), seed, threads), n)


def _best(n: int, d: int, gap: float, seed: int, threads: int) -> dict[str, Any]:
    """The fewest passes over a grid of steps."""
    problem = problem_for(n, d, gap, seed)
    found: dict[str, Any] = {"step": None, "passes": None}
    limit = CAP
    for step in STEPS[STEPS.index(1.0) :]:
        curve = run(problem, vr(problem, step), seed, threads, limit)
        passes = curve.passes_to(TARGET)
        if passes < (found["passes"] or math.inf):
            found = {"step": step, **summary(curve, n)}
            limit = 2 * passes  # no other step needs to run longer: it has lost by then
    return found


def theorem(problem: Problem, delta: float, epsilon: float = TARGET) -> Method:
    """VR-PCA with the step and epoch length of Theorem 1."""
    r = float((problem.X**2).sum(axis=1).max())
    theory = Theory(gap=problem.optimum.gap, delta=delta, epsilon=epsilon, r=r)
    return Method("VR-PCA", "vr", {"step": "theory", "theory": theory})


def rows_study(study: Study, sweep: Sweep) -> None:
    """Rows that are read as n grows, with a fixed gap."""
    d = sweep.shape[1]
    for seed in study.seeds(sweep.seeds):
        for n in sweep.rows:
            setting = {"n": n, "d": d, "gap": FIXED_GAP, "seed": seed}
            study.measure("rows", setting, untuned, n, d, FIXED_GAP, seed, seed, study.threads)
    study.say("the number of rows has been varied")


def starts_study(study: Study, sweep: Sweep) -> None:
    """Many random starts on two matrices, one with a large gap and one with a small gap."""
    n, d = sweep.shape
    for gap in (FIXED_GAP, FIXED_GAP / 10):
        for start in study.seeds(sweep.starts):
            setting = {"n": n, "d": d, "gap": gap, "seed": 0, "start": start}
            study.measure("starts", setting, untuned, n, d, gap, 0, start, study.threads)
    study.say(f"{sweep.starts} random starts have been tried")


def restarts_study(study: Study, sweep: Sweep) -> None:
    """How often a run with too few epochs succeeds, and how often the best of several such runs does."""
    n, d = sweep.shape
    needed = [row["passes"] / 2 for row in study.rows("starts") if row["gap"] == FIXED_GAP and row["passes"]]
    epochs = int(np.quantile(needed, 0.4))
    for restarts in RESTARTS:
        for seed in study.seeds(sweep.starts):
            setting = {"n": n, "d": d, "gap": FIXED_GAP, "epochs": epochs, "restarts": restarts, "seed": seed}
            study.measure("restarts", setting, _best_of, n, d, epochs, restarts, seed, study.threads)
    study.say(f"best of {', '.join(map(str, RESTARTS))} runs with {epochs} epochs each: tried")


def _best_of(n: int, d: int, epochs: int, restarts: int, seed: int, threads: int) -> dict[str, Any]:
    """The option `restarts` of the library: the run with the largest objective counts."""
    problem = problem_for(n, d, FIXED_GAP, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # there are too few epochs on purpose
        found = vrpca.svd(
            problem.X,
            1,
            solver="vr",
            step=vr(problem).options["step"],
            tol=0,
            restarts=restarts,
            max_passes=1 + restarts * (1 + 2 * epochs),
            compute_u=False,
            random_state=seed,
            n_threads=threads,
        )
    return {"error": problem.optimum.suboptimality(found.Vt.T)}


def theorem_study(study: Study, sweep: Sweep) -> None:
    """How often Theorem 1's promise is kept, with its parameters and from a start that it allows."""
    delta, epsilon, gap = 0.05, 1e-2, 0.3
    n, d = 1000, 20
    for seed in study.seeds(sweep.starts):
        setting = {"n": n, "d": d, "gap": gap, "delta": delta, "epsilon": epsilon, "seed": seed}
        study.measure("promise", setting, _promise, n, d, gap, delta, epsilon, seed)
    study.say("runs by Theorem 1 have been tried")


def _promise(n: int, d: int, gap: float, delta: float, epsilon: float, seed: int) -> dict[str, Any]:
    """1 - <w, v_1>^2 after the theorem's number of epochs, from a start at 45 degrees."""
    problem = problem_for(n, d, gap, 0)
    v = problem.optimum.vectors[:, 0]
    g = np.random.default_rng(seed).standard_normal(d)
    g -= (g @ v) * v
    method = theorem(problem, delta, epsilon)
    epochs = method.options["theory"].plan(method.options["theory"].r)[2]
    steps = states(problem, *problem.read(1), method, seed, start=(v + g / np.linalg.norm(g))[:, None])
    for _ in range(epochs + 1):
        state = next(steps)
    return {"error": 1 - float(state.vectors()[:, 0] @ v) ** 2}


def cost_study(study: Study, sweep: Sweep) -> None:
    """Seconds of an epoch on sparse data, as rows get more entries, and as there are more features."""
    middle = sweep.per_row[len(sweep.per_row) // 2]
    settings = [(per_row, sweep.features[len(sweep.features) // 2]) for per_row in sweep.per_row]
    settings += [(middle, d) for d in sweep.features]
    for per_row, d in dict.fromkeys(settings):
        setting = {"n": sweep.sparse_rows, "d": d, "per_row": per_row}
        study.measure("cost", setting, _cost, sweep.sparse_rows, d, per_row)
    study.say("an epoch on sparse data has been timed")


def _cost(n: int, d: int, per_row: int, epochs: int = 6) -> dict[str, Any]:
    """The best time of a few epochs on one thread."""
    rng = np.random.default_rng([n, d, per_row])
    entries = n * per_row
    columns = rng.integers(d, size=entries)
    X = sp.csr_matrix((rng.random(entries), columns, np.arange(0, entries + 1, per_row)), shape=(n, d))
    X.sum_duplicates()
    problem = Problem(X, 1, Optimum(np.ones(1), np.zeros((d, 1)), 0.0, lambda E: 0.0))
    steps, times = states(problem, *problem.read(1), Method("VR-PCA", "vr", {"step": "paper"}), 0), []
    next(steps)
    for _ in range(epochs):
        began = time.perf_counter()
        next(steps)
        times.append(time.perf_counter() - began)
    return {"entries": int(X.nnz), "seconds": min(times)}


def norms_study(study: Study, sweep: Sweep) -> None:
    """The step with the fastest decay, and the decay with the paper's step, as some rows get heavier."""
    n, d = sweep.norms_shape
    for sampling in ("uniform", "norm"):
        for ratio in sweep.norms:
            for seed in study.seeds(sweep.seeds):
                setting = {"n": n, "d": d, "gap": 0.16, "ratio": ratio, "sampling": sampling, "seed": seed}
                study.measure("norms", setting, _steps, n, d, ratio, sampling, seed, study.threads)
    study.say("the norms of the rows have been varied")


def _steps(n: int, d: int, ratio: int, sampling: str, seed: int, threads: int) -> dict[str, Any]:
    problem = problem_for(n, d, 0.16, seed, n // (2 * ratio))
    squares = (problem.X**2).sum(axis=1)
    rates = {step: _rate(problem, step, sampling, seed, threads) for step in STEPS if step <= LONG}
    return {
        "largest": float(squares.max() / squares.mean()),
        "best": max(rates, key=lambda step: rates[step]),
        "rate": max(rates.values()),
        "rate_of_the_paper": rates[1.0],
    }


def _rate(problem: Problem, step: float, sampling: str, seed: int, threads: int) -> float:
    """Decades per epoch; 0 if the target is not reached."""
    curve = run(problem, vr(problem, step, sampling=sampling), seed, threads, PATIENT)
    found = decay(curve)
    return 0.0 if found is None or math.isinf(curve.passes_to(TARGET)) else found.rate


STUDIES: tuple[Callable[[Study, Sweep], None], ...] = (
    gap_study,
    rows_study,
    starts_study,
    restarts_study,
    theorem_study,
    cost_study,
    norms_study,
)


def columns_of(rows: Sequence[Result], x: str, y: str) -> tuple[list[float], list[float]]:
    """Two columns of numbers, from the rows that have both."""
    both = [(row[x], row[y]) for row in rows if row.get(x) is not None and row.get(y) is not None]
    return [a for a, _ in both], [b for _, b in both]


def cost_sweeps(rows: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """The rows of the cost study in two groups: entries per row are varied in the first, features in the second."""
    by_features = [r for r in rows if sum(other["per_row"] == r["per_row"] for other in rows) > 1]
    common = max({r["d"] for r in rows}, key=lambda d: sum(r["d"] == d for r in rows))
    return [r for r in rows if r["d"] == common], by_features
