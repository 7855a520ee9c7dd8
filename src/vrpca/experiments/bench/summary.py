"""A contest as a table, and all contests of a run in one."""

from __future__ import annotations

from collections.abc import Sequence

from vrpca.experiments.bench.contests import Contest, fastest, honest
from vrpca.experiments.bench.roofline import Rates
from vrpca.experiments.shared.summary import Table

COLUMNS = ("s", "ratio", "passes", "roof", "MB", "truth")  # per target
IN_SHORT = "In short"  # the title of the table of all contests: docs/solvers.md shows what is below it
REFERENCE_ERROR = 1e-11  # relative; eigenvalues by LAPACK or ARPACK in double precision are closer than this


def ratios_table(contests: Sequence[Contest]) -> Table:
    """One row per contest. For each target: our time, the fastest peer, and its time over ours."""
    targets = contests[0].targets if contests else ()
    header = ["data", *(cell for target in targets for cell in (f"s at {target:.0e}", "fastest peer", "ratio"))]
    rows = [
        [f"{contest.data.name}, k = {contest.k}", *(cell for target in targets for cell in _against(contest, target))]
        for contest in contests
    ]
    return Table(IN_SHORT, header, rows)


def _against(contest: Contest, target: float) -> list[str]:
    """Our time, the fastest peer with its time, and the ratio, in bold letters where we are behind."""
    ours = contest.best(contest.ours, target)
    best = fastest((result for result in contest.results if result["peer"] != "vrpca"), target)
    cells = ["missed" if ours is None else f"{ours['seconds']:.3g}"]
    cells.append("none" if best is None else f"{best['contender']} {best['seconds']:.3g}")
    if ours is None or best is None:
        return [*cells, ""]
    ratio = best["seconds"] / ours["seconds"]
    return [*cells, f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"]


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
