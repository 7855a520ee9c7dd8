"""Passes: how many of them solvers need to reach a target, with blocks of the same width."""

from __future__ import annotations

from collections.abc import Sequence

from vrpca.experiments.bench.measure import Contender, Session
from vrpca.experiments.shared.datasets import Prepared
from vrpca.experiments.shared.log import Result
from vrpca.experiments.shared.summary import Table

MAX_PASSES = 1000  # ten times the default of a fit, so that slow solvers arrive


def default_oversample(k: int) -> int:
    """Extra columns of the block: as many as k, from 2 to 10."""
    return min(max(k, 2), 10)


def passes(
    tasks: Sequence[tuple[Prepared, int]],
    rivals: Sequence[Contender],
    target: float,
    oversample: int | None,
    session: Session,
) -> list[Result]:
    """The results of all solvers on all tasks, down to the target."""
    results = []
    for data, k in tasks:
        extra = min(default_oversample(k) if oversample is None else oversample, min(data.shape) - k)
        optimum = session.optimum(data, k)
        for rival in rivals:
            setting = {"oversample": extra, "tol": target, "max_passes": rival.options.get("max_passes", MAX_PASSES)}
            result = session.measure(rival, setting, data, k, optimum)
            results.append(result | {"optimum": float(optimum.sum())})
    return results


def passes_table(results: Sequence[Result], target: float) -> Table:
    """One row per task, one column per solver: passes until the target is reached, and until it is certified."""
    names = list(dict.fromkeys(r["contender"] for r in results))
    tasks = list(dict.fromkeys((r["data"], r["k"]) for r in results))
    cells = {(r["data"], r["k"], r["contender"]): r for r in results}
    rows = []
    for data, k in tasks:
        found = [cells[data, k, name] for name in names]
        rows.append(
            [f"{data}, k = {k}", str(k + found[0]["setting"]["oversample"]), *(_cell(r, target) for r in found)]
        )
    notes = ["passes until the true suboptimality is below the target (until the certificate is)"]
    notes += [f"{r['data']}, k = {r['k']}, {r['contender']}: {r['message']}" for r in results if r["status"] != "ok"]
    return Table(f"Passes to {target:.0e}", ["data", "block", *names], rows, notes)


def _cell(result: Result, target: float) -> str:
    if result["status"] != "ok":
        return str(result["status"])
    first = next((p for p, objective, _ in result["history"] if 1 - objective / result["optimum"] <= target), None)
    certified = f"{result['passes']:.3g}" if result["converged"] else "not converged"
    return f"{'-' if first is None else format(first, '.3g')} ({certified})"
