"""Growth: the time of a pass and the number of passes, as rows (dense) or nonzeros (sparse) grow by a factor of 100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from vrpca.experiments.bench.measure import Contender, Session
from vrpca.experiments.shared.datasets import CENTRED, UNCENTRED, Prepared, bag_of_words, gaussian, stored
from vrpca.experiments.shared.log import Result
from vrpca.experiments.shared.summary import Table

DENSE, SPARSE = "rows (dense, 300 columns)", "nonzeros (sparse, 5000 columns)"
FACTORS = (1, 3, 10, 30, 100)
DENSE_ROWS, SPARSE_ROWS = 5000, 5000  # of the smallest set
K = 3


@dataclass(frozen=True)
class Series:
    """What one contender needed as one kind of data grew."""

    kind: str
    contender: str
    results: list[Result]

    @property
    def done(self) -> list[Result]:
        """The sizes that were measured."""
        return [r for r in self.results if r["status"] == "ok"]

    @property
    def sizes(self) -> list[int]:
        """Rows or nonzeros."""
        return [r["nnz"] or r["shape"][0] for r in self.done]

    @property
    def passes(self) -> list[float]:
        """Readings of the data."""
        return [r["passes"] for r in self.done]

    @property
    def seconds_per_pass(self) -> list[float]:
        """The whole time of the fit over its passes."""
        return [r["seconds"] / r["passes"] for r in self.done]

    @property
    def exponent(self) -> float:
        """Slope of log time per pass over log size: 1 is linear."""
        if len(self.done) < 2:
            return float("nan")
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds_per_pass), 1)[0])


def growing(cache: Path, small: bool) -> list[tuple[str, Prepared]]:
    """The data: rows of one distribution, more and more of them."""
    shrink = 10 if small else 1
    spectrum = 1 / np.arange(1, 301)
    sets = []
    for factor in FACTORS:
        n = DENSE_ROWS * factor // shrink
        sets.append((DENSE, stored(f"growth-dense-{n}", cache, partial(gaussian, n, spectrum), CENTRED)))
    for factor in FACTORS:
        n = SPARSE_ROWS * factor // shrink
        sets.append((SPARSE, stored(f"growth-sparse-{n}", cache, partial(bag_of_words, n), UNCENTRED)))
    return sets


def growth(rivals: Sequence[Contender], target: float, small: bool, session: Session) -> list[Series]:
    """Measure all sizes."""
    results: dict[tuple[str, str], list[Result]] = {}
    for kind, data in growing(session.cache, small):
        optimum = session.optimum(data, K)
        for rival in rivals:
            result = session.measure(rival, {"tol": target}, data, K, optimum)
            results.setdefault((kind, rival.name), []).append(result)
    return [Series(kind, name, found) for (kind, name), found in results.items()]


def growth_tables(series: Sequence[Series]) -> list[Table]:
    """One table per series."""
    return [_table(s) for s in series]


def _table(s: Series) -> Table:
    rows = [
        [f"{size}", f"{r['seconds']:.3g}", f"{r['passes']:.3g}", f"{1e3 * per_pass:.3g}", f"{max(r['truth'], 0):.0e}"]
        for r, size, per_pass in zip(s.done, s.sizes, s.seconds_per_pass, strict=True)
    ]
    failed = [f"{r['data']}: {r['status']}, {r['message']}" for r in s.results if r["status"] != "ok"]
    notes = [f"time per pass grows like size to the {s.exponent:.2f}", *failed]
    return Table(f"{s.contender}, k = {K}", [s.kind, "s", "passes", "ms per pass", "truth"], rows, notes)
