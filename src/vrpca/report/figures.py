"""The figures of a report as charts of Altair, for notebooks and for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrpca.history import counted
from vrpca.report.excerpts import Rows, convergence_rows, loading_rows, scree_rows
from vrpca.report.score_sample import ROWS, Colour, ScoreSample, colour_of, score_sample
from vrpca.report.subject import Subject, subject_of
from vrpca.report.themes import check_theme, config

if TYPE_CHECKING:
    import altair as alt

TOP = 12  # loadings that a figure shows: their names still fit beside the bars
HEIGHT = 260  # pixels of a figure: two rows of them are seen on a screen of 800
WIDTH = 520  # pixels of a figure in a notebook
MISSING = 'Figures and reports need altair and vl-convert-python: pip install "vrpca[report]".'


def altair() -> Any:
    """The library that draws, or an error that says how to install it."""
    try:
        import altair
    except ImportError as error:
        raise ImportError(MISSING) from error
    return altair


def scree(model: Any, *, theme: str = "light") -> alt.LayerChart:
    """Draw what each component explains, and what the first ones explain together.

    Parameters
    ----------
    model : PCA, TruncatedSVD or Decomposition
        Fitted.
    theme : {"light", "dark"}
        Colours for a light or a dark background.

    Returns
    -------
    altair.LayerChart
    """
    return themed(scree_chart(subject_of(model)), theme)


def convergence(model: Any, *, theme: str = "light") -> alt.LayerChart:
    """Draw the bound on the suboptimality and the largest residual after each pass, with `tol`.

    Parameters
    ----------
    model, theme
        As for `scree`. A decomposition does not know `tol`.

    Returns
    -------
    altair.LayerChart
    """
    return themed(convergence_chart(subject_of(model)), theme)


def score_map(
    model: Any,
    X: Any,
    *,
    x: int = 1,
    y: int = 2,
    color: Any = None,
    color_name: str = "group",
    rows: int = ROWS,
    seed: int = 0,
    theme: str = "light",
) -> alt.Chart:
    """Draw the samples in the plane of two components.

    Parameters
    ----------
    model, theme
        As for `scree`.
    X : array-like, sparse matrix, data frame, path or Source of shape (n_samples, n_features)
        The data.
    x, y : int
        The components of the axes, counted from 1. If they are the same, a histogram is drawn.
    color : array-like of shape (n_samples,), optional
        What to colour the points by: names of groups, or numbers.
    color_name : str
        What the colours are called in the legend.
    rows : int
        The most points to draw. Of more samples, some are drawn at random.
    seed : int
        Seed of that draw.

    Returns
    -------
    altair.Chart
    """
    subject = subject_of(model)
    colour = None if color is None else colour_of(color, color_name)
    return themed(score_chart(subject, score_sample(subject, X, rows, seed, colour), x, y), theme)


def loadings(model: Any, component: int = 1, *, top: int = TOP, theme: str = "light") -> alt.Chart:
    """Draw the largest loadings of a component, by the names of the features.

    Parameters
    ----------
    model, theme
        As for `scree`.
    component : int
        Which component, counted from 1.
    top : int
        How many loadings.

    Returns
    -------
    altair.Chart
    """
    return themed(loadings_chart(subject_of(model), component, top), theme)


def themed(chart: Any, theme: str) -> Any:
    """The chart for a notebook: with the colours of a theme, and a width in pixels."""
    check_theme(theme)
    return chart.properties(width=WIDTH, config=altair().Config.from_dict(config(theme)))


def scree_chart(subject: Subject) -> Any:
    """The scree without a theme."""
    rows = scree_rows(subject)
    base = _chart(rows).encode(x=_component_axis(subject.k), tooltip=_scree_tips())
    alone, together = "each component", "cumulative"
    bars = base.transform_calculate(series=f"'{alone}'").mark_bar(cornerRadiusEnd=2, width={"band": 0.7})
    line = base.transform_calculate(series=f"'{together}'").mark_line(point={"size": 45, "filled": True})
    colour = _series([alone, together])
    bars = bars.encode(y=_share_axis("ratio"), color=colour)
    line = line.encode(y=_share_axis("cumulative"), color=colour)
    return _described(bars + line, scree_words(subject))


def scree_words(subject: Subject) -> str:
    """The figure in one sentence."""
    if subject.k == 1:
        return f"A bar: the component explains {subject.ratios[0]:.1%} of the variance."
    return (
        f"Bars and a line: component 1 explains {subject.ratios[0]:.1%} of the variance, "
        f"the first {subject.k} together {subject.cumulative[-1]:.1%}."
    )


def _component_axis(k: int) -> Any:
    alt = altair()
    step = max(1, -(-k // 20))  # at most 20 labels stand side by side
    return alt.X("component:O", title="component", axis=alt.Axis(labelAngle=0, values=list(range(1, k + 1, step))))


def _share_axis(field: str) -> Any:
    alt = altair()
    scale = alt.Scale(domainMin=0, zero=True)
    return alt.Y(f"{field}:Q", title="variance explained", axis=alt.Axis(format="~%", tickCount=6), scale=scale)


def _scree_tips() -> list[Any]:
    alt = altair()
    return [
        alt.Tooltip("component:O"),
        alt.Tooltip("ratio:Q", title="explains", format=".3~%"),
        alt.Tooltip("cumulative:Q", title="together with those before", format=".4~%"),
        alt.Tooltip("singular_value:Q", title="singular value", format=".5~g"),
    ]


def convergence_chart(subject: Subject) -> Any:
    """The convergence without a theme."""
    alt = altair()
    rows = convergence_rows(subject)
    kinds = {"bound on the suboptimality": "bound", "largest residual": "residual"}
    points = [row | {"series": name, "value": row[field]} for name, field in kinds.items() for row in rows]
    scale = alt.Scale(domain=[0, 1.03 * max(row["passes"] for row in rows)], nice=False)
    drawn = _chart(points).encode(
        x=alt.X("passes:Q", title="passes over the data", scale=scale, axis=alt.Axis(tickCount=8)),
        y=alt.Y(
            "value:Q", title="relative error", scale=alt.Scale(type="log"), axis=alt.Axis(format=".0~e", tickCount=8)
        ),
        color=_series(list(kinds)),
        strokeDash=alt.StrokeDash("series:N", sort=list(kinds), legend=None),
        tooltip=_convergence_tips(any(row["event"] for row in rows)),
    )
    drawn = drawn.mark_line(point={"size": 45, "filled": True})
    return _described(drawn if not subject.tol else drawn + _tol_rule(subject.tol), convergence_words(subject))


def convergence_words(subject: Subject) -> str:
    """The figure in one sentence."""
    bound = f"the bound on the suboptimality is {subject.history[-1].bound:.1e}"
    tol = f"; tol is {subject.tol:g}" if subject.tol else ""
    return f"A line: after {counted(subject.history[-1].passes)} over the data {bound}{tol}."


def _tol_rule(tol: float) -> Any:
    """A dashed line at the wanted suboptimality, with its name."""
    alt = altair()
    rows = [{"tol": tol, "label": f"tol = {tol:g}", "passes": 0}]
    base = _chart(rows).encode(y=alt.Y("tol:Q"), tooltip=[alt.Tooltip("label:N", title="asked for")])
    rule = base.mark_rule(strokeDash=[5, 4], strokeWidth=1.5)
    text = base.mark_text(align="left", dx=4, dy=-8).encode(x=alt.X("passes:Q"), text="label:N")
    return rule + text


def _convergence_tips(events: bool) -> list[Any]:
    alt = altair()
    tips = [
        alt.Tooltip("series:N", title="what"),
        alt.Tooltip("value:Q", title="value", format=".2~e"),
        alt.Tooltip("passes:Q", format=".4~g"),
        alt.Tooltip("seconds:Q", format=".3~g"),
        alt.Tooltip("explained:Q", title="explained", format=".4~%"),
    ]
    return [*tips, alt.Tooltip("event:N")] if events else tips


def score_chart(subject: Subject, sample: ScoreSample, x: int, y: int) -> Any:
    """The map of scores without a theme; a histogram if both axes are the same component."""
    if x == y:
        return score_histogram(subject, sample, x)
    alt = altair()
    rows = sample.rows(subject.component(x), subject.component(y))
    tips = [alt.Tooltip("row:N", title="sample"), *(_score_tip(axis, j) for axis, j in (("x", x), ("y", y)))]
    encoding: dict[str, Any] = {"x": _score_axis(alt.X, subject, x), "y": _score_axis(alt.Y, subject, y)}
    if sample.colour is not None:
        encoding["color"] = _group(sample.colour)
        tips.append(alt.Tooltip(_group_field(sample.colour), title=sample.colour.name))
    # Thousands of points without labels of their own: the table beside the figure is what a screen reader reads.
    chart = _chart(rows).mark_circle(size=26, opacity=0.65, aria=False).encode(**encoding, tooltip=tips)
    return _described(chart, score_words(sample, x, y))


def score_histogram(subject: Subject, sample: ScoreSample, component: int) -> Any:
    """How many samples have which score on one component, without a theme."""
    alt = altair()
    index = subject.component(component)
    title = f"component {component} ({subject.ratios[index]:.1%})"
    encoding: dict[str, Any] = {
        "x": alt.X("x:Q", bin=alt.Bin(maxbins=40), title=title),
        "y": alt.Y("count():Q", title="samples"),
    }
    tips = [
        alt.Tooltip("x:Q", bin=alt.Bin(maxbins=40), title=f"component {component}"),
        alt.Tooltip("count():Q", title="samples"),
    ]
    if sample.colour is not None and not sample.colour.numeric:
        encoding["color"] = _group(sample.colour)
        tips.append(alt.Tooltip("group:N", title=sample.colour.name))
    chart = _chart(sample.rows(index, index)).mark_bar().encode(**encoding, tooltip=tips)
    return _described(chart, score_words(sample, component, component))


def score_words(sample: ScoreSample, x: int, y: int) -> str:
    """The figure in one sentence."""
    shown = f"{len(sample.numbers):,} of {sample.n:,} samples" if sample.thinned else f"all {sample.n:,} samples"
    if x == y:
        return f"A histogram of {shown} along component {x}."
    by = "" if sample.colour is None else f", coloured by {sample.colour.name}"
    return f"A map of {shown} in the plane of components {x} and {y}{by}."


def _score_axis(channel: Any, subject: Subject, component: int) -> Any:
    alt = altair()
    field = "x:Q" if channel is alt.X else "y:Q"
    title = f"component {component} ({subject.ratios[component - 1]:.1%})"
    return channel(field, title=title, scale=alt.Scale(zero=False, nice=True, padding=8), axis=alt.Axis(tickCount=6))


def _score_tip(axis: str, component: int) -> Any:
    return altair().Tooltip(f"{axis}:Q", title=f"component {component}", format=".4~g")


def _group_field(colour: Colour) -> str:
    return f"group:{'Q' if colour.numeric else 'N'}"


def _group(colour: Colour) -> Any:
    alt = altair()
    legend = alt.Legend(title=colour.name, orient="right", symbolOpacity=1)
    return alt.Color(_group_field(colour), legend=legend)


def loadings_chart(subject: Subject, component: int, top: int = TOP) -> Any:
    """The largest loadings without a theme."""
    alt = altair()
    rows = loading_rows(subject, component, top)
    order = [row["feature"] for row in rows]
    chart = (
        _chart(rows)
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("loading:Q", title=f"loading on component {component}", axis=alt.Axis(tickCount=5)),
            y=alt.Y("feature:N", sort=order, title=None, axis=alt.Axis(labelLimit=150)),
            color=alt.Color("sign:N", scale=alt.Scale(domain=["positive", "negative"]), legend=None),
            tooltip=[alt.Tooltip("feature:N"), alt.Tooltip("loading:Q", format=".4~g")],
        )
    )
    return _described(chart, loadings_words(rows, component))


def loadings_words(rows: Rows, component: int) -> str:
    """The figure in one sentence."""
    first = f": the largest is {rows[0]['feature']}, {rows[0]['loading']:.3g}" if rows else ""
    return f"Bars: the {len(rows)} largest loadings of component {component}{first}."


def _chart(rows: Rows) -> Any:
    alt = altair()
    return alt.Chart(alt.InlineData(values=rows))


def _described(chart: Any, words: str) -> Any:
    return chart.properties(height=HEIGHT, description=words)


def _series(names: list[str]) -> Any:
    """The colours of a few named series, with a legend above."""
    alt = altair()
    legend = alt.Legend(title=None, orient="top", direction="horizontal")
    return alt.Color("series:N", scale=alt.Scale(domain=names), legend=legend)
