"""A contest as a table."""

from __future__ import annotations

from vrpca.experiments.bench.contests import Contest, honest
from vrpca.experiments.bench.roofline import Rates
from vrpca.experiments.shared.summary import Table

COLUMNS = ("s", "ratio", "passes", "roof", "MB", "truth")  # per target
REFERENCE_ERROR = 1e-11  # relative; eigenvalues by LAPACK or ARPACK in double precision are closer than this


def contest_table(contest: Contest, rates: Rates) -> Table:
    """One row per contender. For each target: what `COLUMNS` says."""
    header = [
        "contender",
        *(f"{column} at {t:.0e}" if column == "s" else column for t in contest.targets for column in COLUMNS),
    ]
    rows = [
        [rival.name, *(cell for target in contest.targets for cell in _cells(contest, rival.name, target, rates))]
        for rival in contest.contenders
        if rival.name not in contest.absent
    ]
    return Table(f"{contest.data.title}, k = {contest.k}", header, rows, _notes(contest))


def _cells(contest: Contest, contender: str, target: float, rates: Rates) -> list[str]:
    """Time, ratio to our time, passes, time over that of mere reading, peak memory, true suboptimality."""
    best = contest.best(contender, target)
    if best is None:
        return [_why_not(contest, contender), *[""] * (len(COLUMNS) - 1)]
    ours = contest.best(contest.ours, target)
    ratio = f"{best['seconds'] / ours['seconds']:.2f}" if ours is not None else ""
    passes = roof = ""
    if best["passes"] is not None:
        passes = f"{best['passes']:.3g}"
        roof = f"{best['seconds'] / rates.limit(contest.data, best['passes']):.3g}"
    memory, truth = f"{best['memory'] / 2**20:.0f}", f"{max(best['truth'], 0):.0e}"
    return [f"{best['seconds']:.3g}", ratio, passes, roof, memory, truth]


def _why_not(contest: Contest, contender: str) -> str:
    """Why a target was not reached, by the status of the last result."""
    last = [r["status"] for r in contest.results if r["contender"] == contender][-1]
    return "missed" if last == "ok" else str(last)


def _notes(contest: Contest) -> list[str]:
    notes = [f"{name}: {why}" for name, why in contest.absent.items()]
    if contest.not_asked:
        notes.append(f"not asked: {', '.join(contest.not_asked)}")
    for result in contest.results:
        if result["status"] != "ok":
            notes.append(f"{result['contender']} {result['setting']}: {result['status']}, {result['message']}")
    checked = [honest(result) for result in contest.results if honest(result) is not None]
    if checked:
        notes.append(f"vrpca: truth within the certificate in {sum(map(bool, checked))} of {len(checked)} runs")
    load = max((r["load"] or 0.0 for r in contest.results), default=0.0)
    if any(r["load"] is not None and r["load"] > r["threads"] + 1 for r in contest.results):
        notes.append(f"the machine had other work to do (load average up to {load:.1f}): do not trust these times")
    lowest = min((r["truth"] for r in contest.results if r["status"] == "ok"), default=0.0)
    if lowest < -REFERENCE_ERROR:
        notes.append(f"a contender beat the reference by {-lowest:.0e}: the reference is not the optimum")
    return notes
