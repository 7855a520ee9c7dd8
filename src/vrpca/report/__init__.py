"""A fitted model for people: figures for notebooks, and a page that holds them all.

The figures are charts of Altair. `write_report` writes one HTML file, which needs nothing from elsewhere.
"""

from vrpca.report.figures import convergence, loadings, score_map, scree
from vrpca.report.page import write_report

__all__ = ["convergence", "loadings", "score_map", "scree", "write_report"]
