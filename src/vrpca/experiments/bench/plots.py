"""The pictures of the benchmark: seconds against accuracy, and growth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrpca.experiments.bench.contests import Contest
from vrpca.experiments.shared.plots import FLOOR, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vrpca.experiments.bench.growth import Series

OURS = ("#1f5fa8", "black", "#7a2f8f", "#0b7a75")  # colours of our solvers, apart from the palette of the peers


def time_against_accuracy(contests: Sequence[Contest], path: Path) -> None:
    """One panel per contest: seconds over the suboptimality reached, one line per contender."""
    from matplotlib import colormaps

    names = list(dict.fromkeys(rival.name for contest in contests for rival in contest.contenders))
    ours, others = ([name for name in names if name.startswith("vrpca") is mine] for mine in (True, False))
    colours: dict[str, Any] = {name: OURS[i % len(OURS)] for i, name in enumerate(ours)}
    colours |= {name: colormaps["tab20"](2 + i % 18) for i, name in enumerate(others)}
    columns = min(len(contests), 2)
    figure, panels = new_figure(len(contests), columns, height=3.6)
    for contest, axes in zip(contests, panels, strict=True):
        _contest_panel(axes, contest, colours)
    handles = {label: h for axes in panels for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(3, columns + 1), fontsize=8)
    save(figure, path)


def _contest_panel(axes: Axes, contest: Contest, colours: dict[str, Any]) -> None:
    for rival in contest.contenders:
        done = [r for r in contest.results if r["contender"] == rival.name and r["status"] == "ok"]
        if not done:
            continue
        points = sorted(((max(r["truth"], FLOOR), r["seconds"]) for r in done), reverse=True)
        mine = rival.peer == "vrpca"
        axes.plot(
            [p[0] for p in points],
            [p[1] for p in points],
            "o-" if mine else ".-",
            color=colours[rival.name],
            linewidth=2.5 if mine else 1,
            zorder=3 if mine else 2,
            label=rival.name,
        )
    for target in contest.targets:
        axes.axvline(target, color="0.7", linestyle=":", linewidth=1, zorder=1)
    axes.set(xscale="log", yscale="log", xlabel="suboptimality reached", ylabel="seconds")
    axes.invert_xaxis()
    axes.set_title(f"{contest.data.name}, k = {contest.k}", fontsize=10)
    axes.grid(which="major", color="0.93")


def growth_plot(series: Sequence[Series], path: Path) -> None:
    """Per kind of data two panels: seconds per pass, with a line of slope 1, and passes."""
    kinds = list(dict.fromkeys(s.kind for s in series))
    figure, panels = new_figure(2 * len(kinds), 2, height=3.2)
    for number, kind in enumerate(kinds):
        per_pass, passes = panels[2 * number : 2 * number + 2]
        for s in (s for s in series if s.kind == kind):
            per_pass.plot(s.sizes, s.seconds_per_pass, "o-", label=f"{s.contender}: exponent {s.exponent:.2f}")
            passes.plot(s.sizes, s.passes, "o-", label=s.contender)
            if s is next(t for t in series if t.kind == kind) and s.sizes:
                line = [s.seconds_per_pass[-1] * size / s.sizes[-1] for size in s.sizes]
                per_pass.plot(s.sizes, line, "--", color="0.6", label="linear")
        per_pass.set(xscale="log", yscale="log", xlabel=kind, ylabel="seconds per pass")
        passes.set(xscale="log", xlabel=kind, ylabel="passes", ylim=(0, None))
        for axes in (per_pass, passes):
            axes.grid(which="major", color="0.93")
            axes.legend(frameon=False, fontsize=8)
    save(figure, path)
