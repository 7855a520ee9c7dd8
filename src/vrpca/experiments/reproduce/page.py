"""The results as files: one section per experiment, and one Markdown page of all sections in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from vrpca.errors import DataError
from vrpca.experiments.reproduce.claims import Finding, passes_text
from vrpca.experiments.reproduce.figures import Panel
from vrpca.experiments.reproduce.fits import decay
from vrpca.experiments.shared import summary
from vrpca.experiments.shared.summary import Table

ORDER = ("fig1", "fig1-paper", "fig2", "fig3", "scaling", "beyond")
TARGETS = (1e-3, 1e-6, 1e-10)  # of the tables: those of `vrpca bench`
TITLE = "The paper's experiments, again"
ABOUT = """Made by `vrpca reproduce`; `docs/reproduction.md` says how to run it, and how it is measured. Each section
sets the claims of Shamir's paper beside what was found; the verdicts are computed from the curves. Effective passes are
counted as the paper counts them: 2 for an epoch of VR-PCA (m = n), 1 for n of Oja's steps, 1 for a power iteration.
Not counted are this library's first pass, which finds means and norms, and snapshots that only judge a state."""


@dataclass(frozen=True)
class Section:
    """One experiment: its findings, its tables and figures, and how it was run."""

    stem: str
    title: str
    command: str
    machine: str
    findings: Sequence[Finding]
    tables: Sequence[Table]
    pictures: Sequence[str]
    data: Sequence[str]

    def markdown(self) -> str:
        """The section as Markdown."""
        parts = [f"## {self.title}", "", f"`{self.command}`", "", f"{self.machine}.", ""]
        parts += [f"![{self.title}]({name})\n" for name in self.pictures if name.endswith(".png")]
        parts += ["| the paper | found | verdict |", "| --- | --- | --- |"]
        parts += [f"| {f.claim} | {'<br>'.join(f.found)} | **{f.verdict}** |" for f in self.findings]
        parts += ["", *(f"#{table.markdown()}" for table in self.tables)]  # one level down
        vectors = [name for name in self.pictures if not name.endswith(".png")]
        return "\n".join([*parts, f"Numbers: {', '.join(f'[{name}]({name})' for name in (*self.data, *vectors))}.", ""])


def panel_tables(panels: Sequence[Panel], timed: bool) -> list[Table]:
    """The passes of each method to the targets, one table per plot."""
    return [_panel_table(panel, timed) for panel in panels]


def _panel_table(panel: Panel, timed: bool) -> Table:
    header = ["method", *(f"passes to {target:.0e}" for target in TARGETS), "last", *(["seconds"] if timed else [])]
    rows = [
        [
            curve.label,
            *(passes_text(curve, target) for target in TARGETS),
            f"{max(curve.errors[-1], 0.0):.0e} at {curve.passes[-1]:.4g}",
            *([f"{curve.seconds[-1]:.3g}"] if timed else []),
        ]
        for curve in panel.curves
    ]
    notes = []
    for curve in panel.ours:
        fit = decay(curve)
        if fit is not None:
            notes.append(f"{curve.label}: {fit.rate:.3g} decades per epoch, R^2 {fit.r2:.3f} over {fit.decades:.1f}")
    return Table(panel.title, header, rows, notes)


def write(section: Section, folder: Path) -> Path:
    """Write a section, then the page with all sections of the folder."""
    summary.write_json(folder / f"{section.stem}.json", asdict(section))
    sections = _sections(folder)
    path = folder / "reproduction.md"
    summary.write_text(path, "\n".join([f"# {TITLE}", "", ABOUT, "", *(s.markdown() for s in sections)]))
    return path


def check(folder: Path) -> None:
    """Raise before anything is run if the folder holds another file under the name of a section."""
    _sections(folder)


def _sections(folder: Path) -> list[Section]:
    found = []
    for path in (folder / f"{stem}.json" for stem in ORDER):
        if not path.exists():
            continue
        try:
            given = json.loads(path.read_text())
            findings = [Finding(**finding) for finding in given.pop("findings")]
            tables = [Table(**table) for table in given.pop("tables")]
            found.append(Section(**given, findings=findings, tables=tables))
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{path} is not a section of this page ({error}): use another --out.") from error
    return found


def write_curves(panels: Sequence[Panel], path: Path) -> None:
    """All points of all curves, one line each."""
    rows = [
        {"data": panel.title, "k": panel.k, "start": start, "method": curve.label, "passes": p, "suboptimality": e}
        | {"seconds": s}
        for panel in panels
        for start, curves in enumerate((panel.curves, *panel.again))
        for curve in curves
        for p, e, s in zip(curve.passes, curve.errors, curve.seconds, strict=True)
    ]
    summary.write_csv(path, rows, ("data", "k", "start", "method", "passes", "suboptimality", "seconds"))
