"""What the scaling study says about the paper's claims and open questions. Every verdict is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vrpca.experiments.reproduce.claims import CONFIRMED, DECADES, R2, REFUTED, UNDECIDED, Finding, verdict
from vrpca.experiments.reproduce.curves import TARGET
from vrpca.experiments.reproduce.fits import Line, plane, power_law, proportion
from vrpca.experiments.reproduce.scaling import FIXED_GAP, RESTARTS, Study, columns_of
from vrpca.experiments.shared.log import Result
from vrpca.experiments.shared.summary import Table

SPREAD = 6  # trace of the paper's matrices over their first eigenvalue: six singular values are about 1
SLACK = 0.15  # an exponent may exceed the claimed one by this much: about the width of the fits' intervals
FAR = 4  # from this multiple of BORDER on, n dominates: 1 / lambda^2 is a quarter of it
A_TENTH = 0.1  # a feature may cost this fraction of its cost in an epoch of O(d m)


def relative_gap(gap: float) -> float:
    """The eigengap over the trace, lambda / rbar, for the paper's lambda."""
    return (1 - (1 - gap) ** 2) / SPREAD


BORDER = 1 / relative_gap(FIXED_GAP) ** 2  # where n = (rbar / lambda)^2


def small_gaps(rows: Sequence[Result]) -> list[Result]:
    """The rows in which 1 / lambda dominates: sqrt(n) lambda / rbar is below 1/2."""
    return [row for row in rows if math.sqrt(row["n"]) * relative_gap(row["gap"]) < 0.5]


def gap_exponent(rows: Sequence[Result], y: str = "passes") -> Line:
    """The exponent of 1 / lambda."""
    gaps, values = columns_of(rows, "gap", y)
    return power_law([1 / gap for gap in gaps], values)


def ends(rows: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """The two ends of the sweep over n: 1 / lambda^2 dominates the first, n the second. Between them growth bends."""
    return [r for r in rows if r["n"] <= BORDER], [r for r in rows if r["n"] >= FAR * BORDER]


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
    """Whether the decay is exponential, over all runs of three studies."""
    rows = [r for name in ("gap", "rows", "starts") for r in study.rows(name)]
    holds = [r.get("r2", 0.0) >= R2 and r["decades"] >= DECADES for r in rows]
    fitted = [r for r in rows if r.get("r2") is not None]
    found = f"log10 of the error over epochs is a line with R^2 >= {R2} over at least {DECADES:g} decades in "
    found += f"{sum(holds)} of {len(rows)} runs"
    if not fitted:
        return Finding("the convergence is exponential, after the burn-in", [found], verdict(holds))
    lowest, shortest = min(r["r2"] for r in fitted), min(r["decades"] for r in fitted)
    found += f"; lowest R^2 {lowest:.3f}, fewest decades {shortest:.1f}"
    whole = [r["r2_whole"] for r in fitted]
    other = "with the burn-in, that is through all points after the first epoch, R^2 is as high in "
    other += f"{sum(value >= R2 for value in whole)} of {len(rows)} runs, and at least {min(whole):.3f}"
    return Finding("the convergence is exponential, after the burn-in", [found, other], verdict(holds))


def runtime(study: Study) -> Finding:
    """Whether rows grow like the sum n + 1/lambda^2. A product, such as n / lambda, would have slope 1 in n."""
    few, many = ends(study.rows("rows"))
    below, above = (power_law(*columns_of(part, "n", "rows")) for part in (few, many))
    theory = gap_exponent(study.rows("theorem 1"))
    ours = gap_exponent(small_gaps(study.rows("gap")))
    found = [
        f"rows read to 1e-10 grow like n to the {below} where n < (rbar/lambda)^2 = {BORDER:.0f}, less than a product "
        f"of n and 1/lambda would, and to the {above} where n is {FAR} times that and more",
        f"passes grow like 1/lambda to the {ours} for small lambda with the paper's step: sqrt(n)/lambda rows in all, "
        "which is at most n + 1/lambda^2",
        f"and to the {theory} with the parameters of Theorem 1 (its m says 2)",
        *_left_out(study, "rows", "gap", "theorem 1"),
    ]
    holds = [above.slope <= 1 + SLACK, below.high < 1, ours.slope <= 2 + SLACK, theory.slope <= 2 + SLACK]
    return Finding("the runtime grows no faster than n + 1/lambda^2", found, verdict(holds))


def _left_out(study: Study, *names: str) -> list[str]:
    """A line about the runs that did not reach the target: they are in no fit."""
    missing = sum(row.get("passes") is None for name in names for row in study.rows(name))
    return [f"{missing} runs did not reach 1e-10 and are not in the fits"] if missing else []


def gap_question(study: Study) -> Finding:
    """The paper's second open question: the power of the gap."""
    paper, best = (gap_exponent(small_gaps(study.rows(name))) for name in ("gap", "best step"))
    found = [f"exponent of 1/lambda in the passes: {paper} with the paper's step, {best} with the best of a grid"]
    says = "1/lambda suffices here" if paper.high < 1.5 else "more than 1/lambda is needed here"
    return Finding("open question: can 1/lambda^2 be improved to 1/lambda?", found, says)


def epoch_cost(study: Study) -> Finding:
    """Whether an epoch costs O(d_s (m + n)). In seconds = a + b entries + c d, O(d m) would make c as large as m b."""
    rows = study.rows("cost")
    m, (entries, features, seconds) = rows[0]["n"], ([r[what] for r in rows] for what in ("entries", "d", "seconds"))
    fit = plane([[1.0] * len(rows), entries, features], seconds)
    per_entry, per_feature = (f"{1e9 * fit.coefficients[i]:.2g} (+- {1e9 * fit.margins[i]:.1g}) ns" for i in (1, 2))
    share = fit.coefficients[2] / fit.coefficients[1] / m
    found = [
        f"an epoch takes {1e3 * fit.coefficients[0]:.1g} ms, {per_entry} per entry and {per_feature} per feature, over "
        f"{len(rows)} settings with n = m = {m}: a feature costs as much as {share * m:.2g} entries, where with O(d m) "
        f"it would be {m}"
    ]
    high = (fit.coefficients[2] + fit.margins[2]) / max(fit.coefficients[1] - fit.margins[1], 1e-300)
    return Finding("an epoch costs O(d_s (m + n)), not O(d m)", found, _if(high < A_TENTH * m))


def burn_in(study: Study) -> Finding:
    """By how many epochs the exponential fall is delayed."""
    found, holds = [], []
    for gap in sorted({r["gap"] for r in study.rows("starts")}, reverse=True):
        starts = [r for r in study.rows("starts") if r["gap"] == gap]
        rows = [r for r in starts if r["passes"] and r.get("burn_in") is not None]
        delays = np.array([r["burn_in"] for r in rows] + [math.inf] * (len(starts) - len(rows)))
        middle, high = (float(np.quantile(delays, q, method="higher")) for q in (0.5, 0.95))
        share = np.median([2 * r["burn_in"] / r["passes"] for r in rows]) if rows else math.nan
        holds.append(high <= 1)
        found.append(
            f"lambda = {gap:g}, {len(starts)} starts: {middle:.1f} epochs lost (median; 95%: {high:.1f}), {share:.0%} "
            "of the passes to 1e-10"
        )
    return Finding(
        "from a random start, no burn-in is discernible (at most one epoch in 95% of the starts)", found, verdict(holds)
    )


def probability(study: Study) -> Finding:
    """How often Theorem 1's promise is kept, and how often the untuned step succeeds."""
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
    says = CONFIRMED if low >= promised else REFUTED if high < promised else UNDECIDED
    return Finding("success with probability at least 1 - 2 log(1/epsilon) delta", found, says)


def restarts(study: Study) -> Finding:
    """Amplification: if a run fails with probability q, the best of R runs fails with q^R."""
    single = (0.0, 1.0)  # interval of the probability p that one run succeeds
    found, holds, before = [], [], -1
    for number in RESTARTS:
        rows = [r for r in study.rows("restarts") if r["restarts"] == number]
        hits = sum(r["error"] <= TARGET for r in rows)
        low, high = proportion(hits, len(rows))
        text = f"best of {number}, {rows[0]['epochs']} epochs each: {hits} of {len(rows)} reach 1e-10"
        text += f" ({low:.2f} to {high:.2f})"
        if number == 1:
            single = low, high
        else:
            least, most = (1 - (1 - p) ** number for p in single)
            holds.append(hits > before and low <= most and high >= least)
            text += f"; 1 - (1 - p)^{number} = {least:.2f} to {most:.2f}"
        found.append(text)
        before = hits
    claim = "several runs, of which the one with the largest objective counts, amplify the probability of success"
    return Finding(claim, found, verdict(holds))


def norm_question(study: Study) -> Finding:
    """The paper's last open question: the average norm or the largest one."""
    lines, rates = {}, {}
    for sampling in ("uniform", "norm"):
        rows = [r for r in study.rows("norms") if r["sampling"] == sampling]
        lines[sampling] = power_law(*columns_of(rows, "largest", "best"))
        rates[sampling] = " to ".join(
            f"{np.mean([r['rate_of_the_paper'] for r in rows if r['ratio'] == ratio]):.2g}"
            for ratio in (min(r["ratio"] for r in rows), max(r["ratio"] for r in rows))
        )
    ratios = sorted({r["ratio"] for r in study.rows("norms")})
    found = [
        f"the best step, in units of 1 / (rbar sqrt n), grows like r/rbar to the {lines['uniform']} with uniform draws "
        "(0 if the average governs it, -1 if the largest norm does)",
        f"and to the {lines['norm']} with draws by norm",
        f"with the paper's step, decades per epoch go from {rates['uniform']} as heavy rows hold {ratios[0]} to "
        f"{ratios[-1]} times their share, with uniform draws; from {rates['norm']} with draws by norm",
    ]
    slope = lines["uniform"]
    says = "the average" if slope.low > -0.25 else "the largest norm" if slope.high < -0.75 else "something in between"
    return Finding("open question: does the average norm govern the step instead of the largest?", found, says)


def _if(holds: bool) -> str:
    return CONFIRMED if holds else REFUTED


def tables(study: Study) -> list[Table]:
    """The table of exponents, with their intervals."""
    few, many = ends(study.rows("rows"))
    gaps = [row["gap"] for row in study.rows("theorem 1")]
    fits = {
        "passes to 1e-10 over 1/lambda, small lambda, the paper's step": gap_exponent(small_gaps(study.rows("gap"))),
        "the same, best step of a grid": gap_exponent(small_gaps(study.rows("best step"))),
        f"the same, Theorem 1's parameters, lambda from {min(gaps):g} to {max(gaps):g}": gap_exponent(
            study.rows("theorem 1")
        ),
        "epochs per decade over 1/lambda, small lambda, the paper's step": _inverse_rate(study),
        "rows to 1e-10 over n, n below (rbar/lambda)^2": power_law(*columns_of(few, "n", "rows")),
        f"rows to 1e-10 over n, n above {FAR} times that": power_law(*columns_of(many, "n", "rows")),
    }
    rows = [
        [name, f"{fit.slope:.3f}", f"{fit.low:.3f} to {fit.high:.3f}", f"{fit.r2:.3f}"] for name, fit in fits.items()
    ]
    return [Table("Exponents", ["what", "exponent", "95% interval", "R^2"], rows)]


def _inverse_rate(study: Study) -> Line:
    rows = [row | {"slowness": 1 / row["rate"]} for row in small_gaps(study.rows("gap")) if row.get("rate")]
    return gap_exponent(rows, "slowness")
