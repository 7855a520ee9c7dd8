"""The page: one HTML file with its text, style, figures and the library that draws them. It loads nothing."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from vrpca.data.files.paths import as_path, written_whole
from vrpca.history import Status
from vrpca.markup import Html, joined, tag
from vrpca.report.figures import MISSING, altair
from vrpca.report.score_sample import ROWS, colour_of, score_sample
from vrpca.report.sections import Section, sections_of
from vrpca.report.subject import Subject, subject_of
from vrpca.report.themes import COLOURS, config


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    *,
    color: Any = None,
    color_name: str = "group",
    rows: int = ROWS,
    seed: int = 0,
    title: str | None = None,
) -> None:
    """Write a page about a fitted model: one HTML file that works offline.

    Parameters
    ----------
    model : PCA, TruncatedSVD or Decomposition
        Fitted.
    path : str or path
        Where to. An existing file is replaced only once the new one is complete.
    X : array-like, sparse matrix, data frame, path or Source of shape (n_samples, n_features), optional
        The data, for the map of the samples.
    color, color_name, rows, seed
        As for `score_map`.
    title : str, optional
        The heading of the page.

    Notes
    -----
    The page is 0.9 MB of drawing library, and about 100 bytes for each sample in each map.
    """
    subject = subject_of(model)
    colour = None if color is None else colour_of(color, color_name)
    sample = None if X is None else score_sample(subject, X, rows, seed, colour)
    sections = sections_of(subject, sample)
    page = _page(subject, sections, title or f"{subject.kind} report", _program())
    with written_whole(as_path(path)) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


@cache
def _program() -> str:
    """The program of the page, with the library that it draws with: Vega-Lite in the version that Altair writes."""
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError(MISSING) from error
    version = ".".join(altair().SCHEMA_VERSION.split(".")[:2])
    return _script(vl_convert.javascript_bundle(_resource("page.js"), vl_version=version))


def _script(code: str) -> str:
    """Code as it may stand in a page: with plain line ends, as browsers hash it, and without an end tag."""
    return code.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def _page(subject: Subject, sections: Sequence[Section], title: str, program: str) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(program)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(_resource("page.css"))),
    )
    body = tag(
        "body",
        tag("a", "Skip to the contents", href="#contents", class_="skip"),
        _header(subject, sections, title),
        tag("main", _noscript(), *(section.html() for section in sections), id="contents", tabindex=-1),
        _footer(),
        tag("script", _figures(sections), type="application/json", id="figures"),
        tag("script", Html(program)),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _policy(program: str) -> str:
    """What the browser may do: run this program, and load nothing."""
    value = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    scripts, styles = f"script-src 'sha256-{value}'", "style-src 'unsafe-inline'"
    return f"default-src 'none'; {scripts}; {styles}; base-uri 'none'; form-action 'none'"


def _resource(name: str) -> str:
    return files("vrpca.report").joinpath(name).read_text(encoding="utf-8")


def _figures(sections: Sequence[Section]) -> Html:
    """The charts and the themes as JSON. No "<" is left in it, so that no name of a feature can end the element."""
    charts = {
        figure.name: figure.chart.properties(width="container").to_dict()
        for section in sections
        for figure in section.figures
    }
    for chart in charts.values():
        chart.pop("config", None)  # Altair's own: the themes take its place
        chart["autosize"] = {"type": "fit-x", "contains": "padding"}
    value = {"charts": charts, "themes": {theme: config(theme) for theme in COLOURS}}
    return Html(json.dumps(value, allow_nan=False).replace("<", "\\u003c"))


def _header(subject: Subject, sections: Sequence[Section], title: str) -> Html:
    links = (tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections)
    converged = subject.status is Status.CONVERGED
    verdict = tag("strong", "Converged." if converged else "Not converged.")
    says = tag("div", tag("p", verdict, subject.status.value), class_=f"verdict {'good' if converged else 'bad'}")
    size = f"{subject.n_samples:,.10g} samples, {subject.components.shape[1]:,} features"
    nav = tag("nav", tag("ul", *links), aria_label="Contents")
    return tag("header", tag("h1", title), tag("p", size, class_="soft"), says, _tiles(subject), nav)


def _tiles(subject: Subject) -> Html:
    """The most important numbers."""
    tiles = {
        "components": str(subject.k),
        "variance explained": f"{subject.cumulative[-1]:.1%}",
        "suboptimality at most": f"{subject.certificate.suboptimality:.1e}",
        "certificate": subject.certificate.kind,
        "passes over the data": f"{subject.n_passes:.4g}",
    }
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in tiles.items()), class_="tiles")


def _noscript() -> Html:
    text = "The figures need JavaScript, which is part of this file. The tables have the same numbers."
    return tag("noscript", tag("p", text))


def _footer() -> Html:
    version = importlib.metadata.version("vrpca")
    return tag(
        "footer", joined([f"Made with vrpca {version}. This file is complete: it loads nothing and sends nothing."])
    )
