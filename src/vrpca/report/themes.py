"""The colours of figures on a light and on a dark background, as configurations of Vega-Lite."""

from __future__ import annotations

from typing import Any

from vrpca.errors import OptionError

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"

# Every colour has a contrast of at least 3 to its background, the least that WCAG 2.2 asks of graphics; text has 4.5.
COLOURS: dict[str, dict[str, Any]] = {
    "light": {
        "background": "#ffffff",
        "text": "#3a4350",
        "grid": "#e6e9ee",
        "axis": "#8a94a3",
        "series": [
            "#1f5fa8",
            "#c2500c",
            "#0f766e",
            "#7e3fa8",
            "#8f6a00",
            "#be185d",
            "#4d7c0f",
            "#475569",
            "#0b84b5",
            "#8c4a2f",
        ],
        "ramp": ["#b8860b", "#cf5a1e", "#9c2570", "#3b2a8c"],
    },
    "dark": {
        "background": "#171c24",
        "text": "#cfd6e0",
        "grid": "#2a323d",
        "axis": "#7a8698",
        "series": [
            "#7cb3f0",
            "#f5a06c",
            "#5ec8b5",
            "#c99bf0",
            "#e3c15b",
            "#f38bb5",
            "#a9cf62",
            "#a7b4c6",
            "#58c4f0",
            "#d9a08b",
        ],
        "ramp": ["#5b7be0", "#b06ad8", "#f0749a", "#ffd166"],
    },
}


def check_theme(theme: str) -> None:
    """Raise unless there is such a theme."""
    if theme not in COLOURS:
        raise OptionError(f"theme={theme!r} is not known: choose one of {', '.join(COLOURS)}.")


def config(theme: str) -> dict[str, Any]:
    """The configuration of Vega-Lite for a theme."""
    colours = COLOURS[theme]
    text = {"labelColor": colours["text"], "titleColor": colours["text"]}
    sizes = {"labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": colours["background"],
        "font": FONT,
        "view": {"stroke": None},
        "axis": text
        | sizes
        | {"gridColor": colours["grid"], "domainColor": colours["axis"], "tickColor": colours["axis"]}
        | {"titleFontWeight": 500, "titlePadding": 10, "labelPadding": 6},
        "axisX": {"grid": False},
        "axisY": {"domain": False, "ticks": False},
        "legend": text | sizes | {"labelLimit": 260, "symbolStrokeWidth": 0, "titleFontWeight": 600},
        "range": {"category": colours["series"], "ramp": colours["ramp"]},
        "line": {"strokeWidth": 2.2},
        "rule": {"color": colours["text"]},
        "text": {"color": colours["text"], "fontSize": 12},
    }
