"""``vrpca bench``: this package against its peers, its growth, and the passes that its solvers need."""

from __future__ import annotations

from vrpca.experiments.bench.contests import contenders, contest, ours

__all__ = ["contenders", "contest", "ours"]
