"""What the scaling study says about the paper's claims and open questions; every verdict is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vrpca.experiments.measure import Result
from vrpca.experiments.reproduce.claims import CONFIRMED, DECADES, R2, REFUTED, Finding, verdict
from vrpca.experiments.reproduce.curves import TARGET
from vrpca.experiments.reproduce.fits import Line, power_law, proportion
from vrpca.experiments.reproduce.scaling import FIXED_GAP, RESTARTS, Study, columns_of, cost_sweeps
from vrpca.experiments.summary import Table

SPREAD = 6  # leading singular values of about 1: the trace of the paper's matrices in units of the first eigenvalue
SLACK = 0.15  # by which an exponent may exceed what is claimed


def relative_gap(gap: float) -> float:
    """The eigengap over the trace, lambda / rbar, for the paper's lambda."""
    return (1 - (1 - gap) ** 2) / SPREAD


def small_gaps(rows: Sequence[Result]) -> list[Result]:
    """The rows where 1 / lambda dominates: sqrt(n) lambda / rbar is below 1/2."""
    return [row for row in rows if math.sqrt(row["n"]) * relative_gap(row["gap"]) < 0.5]


def gap_exponent(rows: Sequence[Result], y: str = "passes") -> Line:
    """The exponent of 1 / lambda."""
    gaps, values = columns_of(rows, "gap", y)
    return power_law([1 / gap for gap in gaps], values)


def halves(rows: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Rows of the sweep over n: where 1 / lambda^2 dominates, and where n does."""
    border = 1 / relative_gap(FIXED_GAP) ** 2
    return [r for r in rows if r["n"] <= border], [r for r in rows if r["n"] >= border]


def findings(study: Study) -> list[Finding]:
    """All claims."""
    return [
        exponential(study),
        runtime(study),
        gap_question(study),
        epoch_cost(study),
        burn_in(study),
        probability(study),
        restarts(study),
        norm_question(study),
    ]


def exponential(study: Study) -> Finding:
    """The rate, over all runs of the studies."""
    rows = [r for name in ("gap", "rows", "starts") for r in study.rows(name) if r.get("r2") is not None]
    holds = [r["r2"] >= R2 and r["decades"] >= DECADES for r in rows]
    lowest, shortest = min(r["r2"] for r in rows), min(r["decades"] for r in rows)
    found = f"log10 of the error over epochs is a line with R^2 >= {R2} over at least {DECADES:g} decades in "
    found += f"{sum(holds)} of {len(rows)} runs; lowest R^2 {lowest:.3f}, fewest decades {shortest:.1f}"
    whole = [r["r2_whole"] for r in rows]
    other = "with the burn-in, that is through all looks after the first epoch, R^2 is as high in "
    other += f"{sum(value >= R2 for value in whole)} of {len(rows)} runs, and at least {min(whole):.3f}"
    return Finding("the convergence is exponential, after the burn-in", [found, other], verdict(holds))


def runtime(study: Study) -> Finding:
    """The sum n + 1/lambda^2: slopes on either side."""
    few, many = halves(study.rows("rows"))
    below, above = (power_law(*columns_of(part, "n", "rows")) for part in (few, many))
    theory = gap_exponent(study.rows("theorem 1"))
    ours = gap_exponent(small_gaps(study.rows("gap")))
    border = 1 / relative_gap(FIXED_GAP) ** 2
    found = [
        f"rows read to 1e-10 grow like n to the {above} where n > (rbar/lambda)^2 = {border:.0f}, to the {below} below",
        f"passes grow like 1/lambda to the {ours} for small lambda with the paper's step",
        f"and to the {theory} with the parameters of Theorem 1",
    ]
    holds = [above.slope <= 1 + SLACK, below.slope <= 1 + SLACK, ours.slope <= 2 + SLACK, theory.slope <= 2 + SLACK]
    return Finding("the runtime grows no faster than n + 1/lambda^2", found, verdict(holds))


def gap_question(study: Study) -> Finding:
    """The paper's second open question."""
    paper, best = (gap_exponent(small_gaps(study.rows(name))) for name in ("gap", "best step"))
    found = [f"exponent of 1/lambda in the passes: {paper} with the paper's step, {best} with the best of a grid"]
    says = "1/lambda suffices here" if paper.high < 1.5 else "more than 1/lambda is needed here"
    return Finding("open question: can 1/lambda^2 be improved to 1/lambda?", found, says)


def epoch_cost(study: Study) -> Finding:
    """O(d_s (m + n))."""
    denser, wider = cost_sweeps(study.rows("cost"))
    by_density = power_law(*columns_of(denser, "per_row", "seconds"))
    by_width = power_law(*columns_of(wider, "d", "seconds"))
    found = [
        f"seconds of an epoch grow like the entries per row to the {by_density} (d = {denser[0]['d']})",
        f"and like d to the {by_width} ({wider[0]['per_row']} entries per row), where O(d m) would be 1",
    ]
    holds = [by_density.slope <= 1 + SLACK, by_width.slope <= 0.5]
    return Finding("an epoch costs O(d_s (m + n)), not O(d m)", found, verdict(holds))


def burn_in(study: Study) -> Finding:
    """How far the exponential fall lies behind one that begins at once."""
    found, holds = [], []
    for gap in sorted({r["gap"] for r in study.rows("starts")}, reverse=True):
        rows = [r for r in study.rows("starts") if r["gap"] == gap and r["passes"]]
        delays = np.array([r["burn_in"] for r in rows])
        share = np.median([2 * r["burn_in"] / r["passes"] for r in rows])
        holds.append(bool(np.quantile(delays, 0.95) <= 1))
        found.append(
            f"lambda = {gap:g}, {len(rows)} starts: the fall lies {np.median(delays):.1f} epochs behind (median; 95%: "
            f"{np.quantile(delays, 0.95):.1f}), {share:.0%} of the passes to 1e-10"
        )
    return Finding(
        "from a random start, no burn-in is discernible (at most one epoch in 95% of the starts)", found, verdict(holds)
    )


def probability(study: Study) -> Finding:
    """Theorem 1's promise, and the heuristic's record."""
    rows = study.rows("promise")
    delta, epsilon = rows[0]["delta"], rows[0]["epsilon"]
    promised = 1 - 2 * math.log(1 / epsilon) * delta
    kept = sum(r["error"] <= epsilon for r in rows)
    low, high = proportion(kept, len(rows))
    starts = study.rows("starts")
    found = [
        f"with Theorem 1's parameters (delta = {delta:g}, epsilon = {epsilon:g}, constants 1), from 45 degrees: "
        f"{kept} of {len(rows)} runs succeed ({low:.2f} to {high:.2f}); promised: {promised:.2f}",
        f"untuned, from a random start: {sum(r['passes'] is not None for r in starts)} of {len(starts)} reach 1e-10",
    ]
    return Finding("success with probability at least 1 - 2 log(1/epsilon) delta", found, _if(high >= promised))


def restarts(study: Study) -> Finding:
    """Amplification: the best of R runs fails like the R-th power of one."""
    rates = {}
    found, holds = [], []
    for number in RESTARTS:
        rows = [r for r in study.rows("restarts") if r["restarts"] == number]
        hits = sum(r["error"] <= TARGET for r in rows)
        rates[number] = hits / len(rows)
        low, high = proportion(hits, len(rows))
        expected = 1 - (1 - rates[1]) ** number
        holds.append(low <= expected <= high)
        epochs = rows[0]["epochs"]
        found.append(
            f"best of {number}, {epochs} epochs each: {hits} of {len(rows)} reach 1e-10 ({low:.2f} to {high:.2f})"
            + (f"; 1 - (1 - p)^{number} = {expected:.2f}" if number > 1 else "")
        )
    claim = "several runs, of which the one with the largest objective counts, amplify the probability of success"
    return Finding(claim, found, verdict(holds))


def norm_question(study: Study) -> Finding:
    """The paper's last open question."""
    lines = {}
    for sampling in ("uniform", "norm"):
        rows = [r for r in study.rows("norms") if r["sampling"] == sampling]
        lines[sampling] = power_law(*columns_of(rows, "largest", "best"))
    found = [
        f"the best step, in units of 1 / (rbar sqrt n), grows like r/rbar to the {lines['uniform']} with uniform draws "
        "(0 if the average governs it, -1 if the largest norm does)",
        f"and to the {lines['norm']} with draws by norm",
    ]
    slope = lines["uniform"]
    says = "the average" if slope.low > -0.25 else "the largest norm" if slope.high < -0.75 else "something in between"
    return Finding("open question: does the average norm govern the step instead of the largest?", found, says)


def _if(holds: bool) -> str:
    return CONFIRMED if holds else REFUTED


def tables(study: Study) -> list[Table]:
    """The exponents, with their intervals."""
    few, many = halves(study.rows("rows"))
    fits = {
        "passes to 1e-10 over 1/lambda, small lambda, the paper's step": gap_exponent(small_gaps(study.rows("gap"))),
        "the same, best step of a grid": gap_exponent(small_gaps(study.rows("best step"))),
        "the same, Theorem 1's parameters": gap_exponent(study.rows("theorem 1")),
        "epochs per decade over 1/lambda, small lambda, the paper's step": _inverse_rate(study),
        "rows to 1e-10 over n, n below (rbar/lambda)^2": power_law(*columns_of(few, "n", "rows")),
        "rows to 1e-10 over n, n above it": power_law(*columns_of(many, "n", "rows")),
    }
    rows = [
        [name, f"{fit.slope:.3f}", f"{fit.low:.3f} to {fit.high:.3f}", f"{fit.r2:.3f}"] for name, fit in fits.items()
    ]
    return [Table("Exponents", ["what", "exponent", "95% interval", "R^2"], rows)]


def _inverse_rate(study: Study) -> Line:
    rows = [row | {"slowness": 1 / row["rate"]} for row in small_gaps(study.rows("gap")) if row.get("rate")]
    return gap_exponent(rows, "slowness")
