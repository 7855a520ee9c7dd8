"""The picture of the README: three figures about scikit-learn's handwritten digits, drawn without a browser.

``python examples/readme_picture.py docs/images/report.png``
"""

from __future__ import annotations

import sys

import altair as alt
from PIL import Image
from sklearn.datasets import load_digits

import vrpca
from vrpca.report import convergence, score_map, scree

COLOURS = 128  # of the picture: it has a third of the bytes then, and looks the same


def main(path: str) -> None:
    """Fit, draw and write."""
    digits = load_digits()
    model = vrpca.PCA(10, solver="krylov", random_state=0).fit(digits.data)
    scores = score_map(model, digits.data, color=digits.target, color_name="digit", rows=900)
    charts = [scores, scree(model), convergence(model)]
    config = charts[0].config
    for chart in charts:
        chart.config = alt.Undefined  # one for all of them
    widths = (300, 250, 250)
    row = alt.hconcat(
        *(chart.properties(width=width) for chart, width in zip(charts, widths, strict=True)), spacing=36, padding=16
    ).resolve_scale(color="independent")
    row.properties(config=config).save(path, scale_factor=1.5)
    Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
