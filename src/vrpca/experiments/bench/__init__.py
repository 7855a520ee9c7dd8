"""``vrpca bench``: the time of this package and of its peers, its growth with the data, and the passes it needs."""

from __future__ import annotations

from vrpca.experiments.bench.contests import contenders, contest, ours

__all__ = ["contenders", "contest", "ours"]
