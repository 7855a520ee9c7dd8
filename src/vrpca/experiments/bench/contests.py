"""Contests: which contender is fastest to a given suboptimality, and what that takes.

A contender has a ladder of settings, from cheap to exact. It climbs the ladder until it reaches the smallest target.
For each target, its fastest setting that reaches the target counts. The true suboptimality decides, never the
contender's own claim.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.errors import OptionError
from vrpca.experiments.bench.measure import Contender, Session
from vrpca.experiments.bench.peers import PEERS, Setting, Task, installed
from vrpca.experiments.shared.datasets import Prepared
from vrpca.experiments.shared.log import FINAL, Result

ROUNDING = 1e-14  # error of a suboptimality computed in double precision: 1 minus a ratio of sums, some 50 eps


@dataclass(frozen=True)
class Contest:
    """All contenders on one data set with one k."""

    data: Prepared
    k: int
    targets: tuple[float, ...]
    contenders: tuple[Contender, ...]
    results: list[Result]
    absent: dict[str, str]

    @property
    def not_asked(self) -> list[str]:
        """Peers that the user left out of this run."""
        return [name for name in PEERS if name != "vrpca" and name not in {c.name for c in self.contenders}]

    def best(self, contender: str, target: float) -> Result | None:
        """The fastest result of a contender that reaches a target."""
        return fastest((r for r in self.results if r["contender"] == contender), target)

    @property
    def ours(self) -> str:
        """The contender that the others are compared with: the first one of this package."""
        return next((c.name for c in self.contenders if c.peer == "vrpca"), "")


def ours(solver: str) -> Contender:
    """A contender of this package: a solver, with options after colons, as in ``vr:oversample=4:sampling=norm``."""
    from vrpca.solvers import SOLVERS

    name, *rest = solver.strip().split(":")
    if name not in ("auto", *SOLVERS):
        raise OptionError(f"There is no solver {name}: use auto, {', '.join(SOLVERS)}.")
    return Contender(f"vrpca {solver.strip()}", "vrpca", {"solver": name, **dict(map(_option, rest))})


def _option(text: str) -> tuple[str, Any]:
    from vrpca.options import names

    name, equals, value = text.partition("=")
    if not equals or name not in names() or name in ("solver", "tol"):
        raise OptionError(f"{text} is not an option of a solver: write option=value, as in vr:oversample=4.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def contenders(solvers: Sequence[str], peers: Sequence[str] | None = None) -> tuple[Contender, ...]:
    """Our solvers, then the peers: all peers, or those whose name contains one of the words."""
    others = [name for name in PEERS if name != "vrpca"]
    if peers is not None:
        for word in peers:
            if not any(word.lower() in name.lower() for name in others):
                raise OptionError(f"No peer's name contains {word!r}: there are {', '.join(others)}.")
        others = [name for name in others if any(word.lower() in name.lower() for word in peers)]
    return (*map(ours, solvers), *(Contender(name, name) for name in others))


def fastest(results: Iterable[Result], target: float) -> Result | None:
    """The fastest of the results that count for a target."""
    return min((r for r in results if reaches(r, target)), key=lambda r: r["seconds"], default=None)


def reaches(result: Result, target: float) -> bool:
    """Whether a result counts for a target: it has to be reached and, by a peer that certifies, asked for."""
    if result["status"] != "ok" or not result["truth"] <= target:
        return False
    return not PEERS[result["peer"]].certifies or result["setting"].get("tol", 0.0) <= target


def honest(result: Result) -> bool | None:
    """Whether the true suboptimality is within the certificate; None without a certificate."""
    if result["status"] != "ok" or result.get("certificate") is None:
        return None
    return bool(result["truth"] <= result["certificate"] + ROUNDING)


def contest(data: Prepared, k: int, rivals: Sequence[Contender], targets: Sequence[float], session: Session) -> Contest:
    """The results of all contenders on one data set with one k."""
    if not 1 <= k <= min(data.shape):
        raise OptionError(f"k = {k} does not suit {data.name}, which is {data.shape[0]} x {data.shape[1]}.")
    optimum = session.optimum(data, k)
    task = Task(data.shape, data.sparse, data.center, k)
    results, absent = [], {}
    for rival in rivals:
        why = why_absent(rival, task)
        if why:
            absent[rival.name] = why
            session.say(f"{data.name} k={k}  {rival.name}: {why}")
        else:
            ladder = PEERS[rival.peer].ladder(task, targets)
            results += climb(rival, ladder, data, k, optimum, min(targets), session)
    return Contest(data, k, tuple(sorted(targets, reverse=True)), tuple(rivals), results, absent)


def why_absent(rival: Contender, task: Task) -> str:
    """Why a contender does not take part; empty if it does."""
    peer = PEERS[rival.peer]
    if not installed(peer):
        return f"not installed (package {peer.module})"
    reason = peer.cannot(task)
    return f"cannot: {reason}" if reason else ""


def climb(
    rival: Contender,
    ladder: Sequence[Setting],
    data: Prepared,
    k: int,
    optimum: np.ndarray,
    target: float,
    session: Session,
) -> list[Result]:
    """Results of one contender, up to the first setting that reaches the target."""
    results = []
    for setting in ladder:
        result = session.measure(rival, setting, data, k, optimum)
        results.append(result)
        if honest(result) is False:
            session.say(f"  its certificate was {result['certificate']:.1e}: BELOW THE TRUTH")
        if result["status"] in FINAL or reaches(result, target):
            break
    return results
