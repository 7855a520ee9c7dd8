"""The sections of the page: words, figures, and a table beside each figure with the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vrpca.history import counted
from vrpca.markup import Html, paragraphs, table, tag
from vrpca.report import figures
from vrpca.report.excerpts import convergence_rows, loading_rows, scree_rows
from vrpca.report.score_sample import ScoreSample
from vrpca.report.subject import Subject

LOADINGS = 6  # components whose loadings are shown: three rows of two figures
ALWAYS = ("n_components", "tol", "solver", "max_passes", "certificate")  # options that are listed even if left alone
LISTED = 1000  # lines of a table: more are of no use on a page, and make it slow


@dataclass(frozen=True)
class Figure:
    """A figure of the page."""

    name: str  # of the element that it is drawn in
    title: str
    words: str  # what it shows, for those who do not see it
    chart: Any
    numbers: Html  # the table

    def html(self) -> Html:
        """The place where the figure is drawn, and its table."""
        caption = tag("figcaption", tag("strong", self.title), self.words)
        # The sentence of the caption is the label, and the library's own labels are inside the drawing.
        place = tag("div", id=self.name, class_="chart")
        label = f"Numbers of: {self.title}"
        box = tag("div", self.numbers, class_="scroll", tabindex=0, role="region", aria_label=label)
        return tag("figure", caption, place, tag("details", tag("summary", f"Table: {self.title}"), box))


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    name: str
    title: str
    text: Sequence[str]
    figures: Sequence[Figure] = ()
    more: Sequence[Html] = ()

    def html(self) -> Html:
        """The section as HTML."""
        heading = tag("h2", self.title, id=f"{self.name}-title")
        drawn = [tag("div", *(figure.html() for figure in self.figures), class_="grid")] if self.figures else []
        body = [heading, paragraphs(self.text), *self.more, *drawn]
        return tag("section", *body, id=self.name, aria_labelledby=f"{self.name}-title")


def sections_of(subject: Subject, sample: ScoreSample | None) -> list[Section]:
    """All sections of the page, in their order."""
    scores = [] if sample is None else [score_section(subject, sample)]
    options = [options_section(subject)] if subject.parameters else []
    return [
        summary_section(subject),
        variance_section(subject),
        *scores,
        loadings_section(subject),
        convergence_section(subject),
        *options,
    ]


def summary_section(subject: Subject) -> Section:
    """What was asked, what was found, and what the certificate says."""
    texts = {
        "What was asked": asked(subject),
        "What was found": found(subject),
        "What the certificate says": subject.certificate.in_words(),
    }
    cards = [tag("div", tag("h3", title), paragraphs(text), class_="card") for title, text in texts.items()]
    return Section("summary", "In words", [], more=[tag("div", *cards, class_="grid three")])


def asked(subject: Subject) -> list[str]:
    """What was asked for, in sentences."""
    if not subject.parameters:
        return [f"{subject.k} components. A decomposition does not keep the options that it was made with."]
    wanted, prepared = _wanted(subject.parameters["n_components"]), _prepared(subject)
    return [
        f"{wanted} of {prepared}, to a suboptimality of at most {subject.tol:g} (tol): that is the part of the best "
        "possible variance that may be missing.",
        f"At most {counted(subject.parameters['max_passes'])} over the data, with solver "
        f"“{subject.parameters['solver']}” and a certificate that is {subject.parameters['certificate']} or better.",
    ]


def _wanted(n_components: Any) -> str:
    if n_components is None:
        return "All components"
    if isinstance(n_components, float) and n_components < 1:
        return f"As many components as explain {n_components:.4g} of the variance"
    return f"{n_components} component{'s' * (n_components != 1)}"


def _prepared(subject: Subject) -> str:
    """How the data were prepared."""
    words = ["centred"] * (subject.mean is not None) + ["scaled"] * (subject.scale is not None)
    return f"{' and '.join(words)} data" if words else "the data as they are, not centred"


def found(subject: Subject) -> list[str]:
    """What was found, in sentences."""
    n, d = f"{subject.n_samples:,.10g}", f"{subject.components.shape[1]:,}"
    explain = "components that explain" if subject.k > 1 else "component that explains"
    return [
        f"{subject.k} {explain} {subject.cumulative[-1]:.1%} of the variance of {n} samples with {d} features.",
        f"Solver “{subject.solver}” ({subject.reason}) took {counted(subject.n_passes)} over the data and "
        f"{subject.history[-1].seconds:.3g} seconds.",
    ]


def variance_section(subject: Subject) -> Section:
    """The scree."""
    rows = [
        [str(row["component"]), f"{row['singular_value']:.6g}", f"{row['ratio']:.3%}", f"{row['cumulative']:.3%}"]
        for row in scree_rows(subject)
    ]
    numbers = table(["component", "singular value", "explains", "cumulative"], rows[:LISTED])
    title = "Variance by component"
    chart = figures.scree_chart(subject)
    figure = Figure("scree", title, figures.scree_words(subject), chart, numbers)
    text = ["How much of the variance each component explains, and how much the first ones explain together."]
    return Section("variance", "Variance explained", text, [figure])


def score_section(subject: Subject, sample: ScoreSample) -> Section:
    """The maps of the first components of the scores."""
    pairs = [(1, 2), (3, 2)][: max(1, subject.k - 1)] if subject.k > 1 else [(1, 1)]
    drawn = [
        Figure(
            f"scores-{x}-{y}",
            f"Components {x} and {y}" if x != y else "Component 1",
            figures.score_words(sample, x, y),
            figures.score_chart(subject, sample, x, y),
            _score_table(sample, sorted({x, y})),
        )
        for x, y in pairs
    ]
    return Section("scores", "Samples", score_text(subject, sample), drawn)


def score_text(subject: Subject, sample: ScoreSample) -> list[str]:
    """What the maps show, and what they leave out."""
    said = [
        "Every point is a sample: its scores on two components. Points that lie close are alike in these components."
    ]
    if subject.k == 1:
        said = ["How many samples have which score on the component."]
    if sample.thinned:
        said.append(
            f"Drawn are {len(sample.numbers):,} of {sample.n:,} samples, chosen at random with a seed; "
            "the table sums up the same samples."
        )
    if sample.merged:
        said.append(f"The {sample.merged} smallest groups share the name “other”.")
    return said


def _score_table(sample: ScoreSample, components: Sequence[int]) -> Html:
    """Mean, deviation and range of the scores, for all samples shown and for each group."""
    every = np.ones(len(sample.numbers), bool)
    groups = {"all": every}
    if sample.colour is not None and not sample.colour.numeric:
        values = np.asarray(sample.colour.values, dtype=object)
        groups |= {f"{sample.colour.name}: {name}": values == name for name in sorted(set(sample.colour.values))}
    header = ["samples", "component", "number", "mean", "deviation", "smallest", "largest"]
    rows = [
        [name, str(j), str(int(inside.sum())), *_spread(sample.scores[inside, j - 1])]
        for name, inside in groups.items()
        for j in components
    ]
    return table(header, rows)


def _spread(scores: np.ndarray) -> list[str]:
    return [f"{value:.4g}" for value in (scores.mean(), scores.std(), scores.min(), scores.max())]


def loadings_section(subject: Subject) -> Section:
    """The largest loadings of the first components."""
    drawn = [_loadings_figure(subject, j) for j in range(1, min(subject.k, LOADINGS) + 1)]
    text = [
        f"The features that weigh most in each component, {_shown(subject.components.shape[1])}. "
        "A component is a direction: features with bars on the same side rise together along it."
    ]
    if subject.k > LOADINGS:
        text.append(f"Shown are the first {LOADINGS} of {subject.k} components.")
    return Section("loadings", "Largest loadings", text, drawn)


def _shown(features: int) -> str:
    return f"at most {figures.TOP} of {features:,}" if features > figures.TOP else f"all {features}"


def _loadings_figure(subject: Subject, j: int) -> Figure:
    rows = loading_rows(subject, j, figures.TOP)
    numbers = table(["feature", "loading"], [[row["feature"], f"{row['loading']:.5f}"] for row in rows])
    title = f"Component {j}, {subject.ratios[j - 1]:.1%} of the variance"
    return Figure(f"loadings-{j}", title, figures.loadings_words(rows, j), figures.loadings_chart(subject, j), numbers)


def convergence_section(subject: Subject) -> Section:
    """The history of the run."""
    header = ["passes", "seconds", "variance explained", "bound", "largest residual", "event"]
    rows = [
        [
            f"{row['passes']:.4g}",
            f"{row['seconds']:.3g}",
            f"{row['explained']:.4%}",
            _scientific(row["bound"]),
            _scientific(row["residual"]),
            row["event"],
        ]
        for row in convergence_rows(subject)
    ]
    words = figures.convergence_words(subject)
    figure = Figure(
        "convergence", "Bound by pass", words, figures.convergence_chart(subject), table(header, rows[-LISTED:])
    )
    text = ["How the certified bound fell with every reading of the data. The run ends when it is below tol."]
    if len(subject.history) == 1:
        text = ["The answer was there after one step, so there is one point."]
    return Section("course", "Convergence", text, [figure])


def _scientific(value: float | None) -> str:
    return "none" if value is None else f"{value:.2e}"


def options_section(subject: Subject) -> Section:
    """The options that matter, and all of them behind a click."""
    plain = type(subject.model)().get_params(deep=False)
    given = {name: value for name, value in subject.parameters.items() if name in ALWAYS or value != plain[name]}
    rest = {name: value for name, value in subject.parameters.items() if name not in given}
    text = ["The options that were set, and a few that always matter; all others were left at their defaults."]
    closed = tag("details", tag("summary", "Options left at their defaults"), _options(rest))
    return Section("options", "Options", text, more=[tag("div", _options(given), closed, class_="card words")])


def _options(options: dict[str, Any]) -> Html:
    return table(["option", "value"], [[name, str(value)] for name, value in sorted(options.items())])
