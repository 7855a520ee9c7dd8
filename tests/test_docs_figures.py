"""The figures in the documentation's tables are those of the stored results that the tables name."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from vrpca.experiments.bench.contests import fastest

DOCS = Path(__file__).resolve().parents[1] / "docs"
pytestmark = pytest.mark.skipif(
    not (DOCS / "results").exists(), reason="docs/results is not there: source distributions have no results"
)
PAGES = ("peers", "peers-paper")  # of `vrpca bench`, whose first table the documentation shows
PASSES = {"passes": "1e-10", "passes-by-cost": "1e-06"}  # pages of `vrpca bench passes`, and their targets


def rows_after(page, header):
    """The rows of a table, as lists of cells."""
    lines = (DOCS / page).read_text().split(header, 1)[1].splitlines()[1:]  # after the rule below the header
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def results(folder, name):
    """The stored results of a run, in the form that the benchmark judges."""
    path = DOCS / "results" / folder / f"{name}.csv"
    for row in csv.DictReader(path.read_text().splitlines()):
        peer = "vrpca" if row["contender"].startswith("vrpca") else row["contender"]
        numbers = {what: float(row[what]) for what in ("seconds", "truth", "passes") if row[what]}
        yield row | {"peer": peer, "setting": json.loads(row["setting"]), "k": int(row["k"])} | numbers


@pytest.mark.parametrize("folder", PAGES)
def test_times_against_the_peers(folder):
    """The page shows the stored results, and the documentation shows the page."""
    include = f'```{{include}} results/{folder}/peers.md\n:start-after: "## In short"\n:end-before: "## "\n```'
    assert include in (DOCS / "solvers.md").read_text()
    page = f"results/{folder}/peers.md"
    header = next(line for line in (DOCS / page).read_text().splitlines() if line.startswith("| data |"))
    targets = [float(cell.split()[-1]) for cell in header.strip("|").split("|") if cell.startswith(" s at")]
    table, stored = list(rows_after(page, header + "\n")), list(results(folder, "peers"))
    assert {row[0] for row in table} == {f"{r['data']}, k = {r['k']}" for r in stored}
    for row in table:
        here = [r for r in stored if f"{r['data']}, k = {r['k']}" == row[0]]
        for target, (said, best, ratio) in zip(targets, batched(row[1:], 3), strict=True):
            mine = fastest((r for r in here if r["peer"] == "vrpca"), target)
            peer = fastest((r for r in here if r["peer"] != "vrpca"), target)
            assert float(said) == pytest.approx(mine["seconds"], rel=0.01)
            if peer is None:
                assert (best, ratio) == ("none", "")
            else:
                assert best.startswith(peer["contender"])
                assert float(ratio.strip("*")) == pytest.approx(peer["seconds"] / mine["seconds"], abs=0.0051)


def batched(cells, count):
    return [cells[i : i + count] for i in range(0, len(cells), count)]


@pytest.mark.parametrize(("folder", "target"), PASSES.items())
def test_passes(folder, target):
    include = f'```{{include}} results/{folder}/passes.md\n:start-after: "## Passes to {target}"\n```'
    assert include in (DOCS / "solvers.md").read_text()
    page = f"results/{folder}/passes.md"
    header = next(line for line in (DOCS / page).read_text().splitlines() if line.startswith("| data |"))
    solvers = [cell.strip() for cell in header.strip("|").split("|")][2:]
    stored = {(f"{r['data']}, k = {r['k']}", r["contender"]): r["passes"] for r in results(folder, "passes")}
    table = list(rows_after(page, header + "\n"))
    assert len(table) * len(solvers) == len(stored)
    for row in table:
        proven = [float(cell.split("(")[1].strip(")")) for cell in row[2:]]  # in brackets: until it was certified
        assert proven == pytest.approx([stored[row[0], solver] for solver in solvers], rel=0.01)


@pytest.mark.parametrize(
    ("name", "title", "ends"),
    [
        ("foundation", "Accuracy", True),
        ("foundation", "Speed", True),
        ("foundation", "Memory", False),
        ("products", "Products", False),
    ],
)
def test_tables_of_the_benchmarks(name, title, ends):
    """The page shows the tables as the programs wrote them."""
    end = ':end-before: "## "\n' if ends else ""
    page = f"results/{name}/{name}.md"
    assert f'```{{include}} {page}\n:start-after: "## {title}"\n{end}```' in (DOCS / "benchmarks.md").read_text()
    assert f"## {title}\n\n| " in (DOCS / page).read_text()


def test_certificates():
    for row in rows_after("certificates.md", "| kind | cases | converged | wrong | median looseness | 90% below |\n"):
        kind, seed = row[0].split("`")[1], row[0].rsplit(" ", 1)[1]
        name = f"seed-{seed}{'-probabilistic' if kind == 'probabilistic' else ''}.md"
        page = (DOCS / "results" / "certificates" / name).read_text()
        line = next(text for text in page.splitlines() if text.startswith(f"| {kind} | *all* |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert row[1:4] == cells[2:5]
        assert [float(c) for c in row[4:]] == pytest.approx([float(c) for c in cells[9:11]], rel=0.06)
