"""Growth: the time of a pass and the number of passes, as the data grow by a factor of 100."""

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

DENSE, SPARSE = "rows (dense, 300 features)", "nonzeros (sparse, 5000 features)"
FACTORS = (1, 3, 10, 30, 100)  # sizes, in units of the smallest: about even steps on a logarithmic axis
DENSE_ROWS, SPARSE_ROWS = 5000, 5000  # rows of the smallest set; the largest dense one has 600 MB, so memory holds it
K = 3  # components: enough for a block


@dataclass(frozen=True)
class Series:
    """The results of one contender as one kind of data grows."""

    kind: str
    contender: str
    results: list[Result]

    @property
    def done(self) -> list[Result]:
        """The results of the sizes that could be measured."""
        return [r for r in self.results if r["status"] == "ok"]

    @property
    def sizes(self) -> list[int]:
        """Rows of dense data, or nonzeros of sparse data."""
        return [r["nnz"] or r["shape"][0] for r in self.done]

    @property
    def passes(self) -> list[float]:
        """Passes of each fit."""
        return [r["passes"] for r in self.done]

    @property
    def seconds_per_pass(self) -> list[float]:
        """Seconds of each fit, divided by its passes."""
        return [r["seconds"] / r["passes"] for r in self.done]

    @property
    def exponent(self) -> float:
        """Slope of log time per pass over log size: 1 is linear."""
        if len(self.done) < 2:
            return float("nan")
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds_per_pass), 1)[0])


def growing(cache: Path, small: bool) -> list[tuple[str, Prepared]]:
    """The data: more and more rows of the same distribution."""
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
