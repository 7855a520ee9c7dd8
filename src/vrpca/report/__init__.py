"""Pictures of what a run did."""

from vrpca.report.plots import convergence_plot

__all__ = ["convergence_plot"]
