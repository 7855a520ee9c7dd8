"""Which solver to take when the user does not say, and why."""

from __future__ import annotations

SMALL = 256  # A of this size costs next to nothing
FLOPS = 2e10  # n d^2 that may be spent on forming A
WIDEST = 4000  # largest A that is worth its memory


def choose(n: int, d: int, k: int) -> tuple[str, str]:
    """Return the name of a solver for k components of n rows of length d, and the reason."""
    if d <= SMALL:
        return "gram", f"the smaller side has only {d} entries"
    if d <= WIDEST and (n * d**2 <= FLOPS or 4 * k > d):
        return "gram", f"forming the {d} x {d} matrix A is cheap enough"
    return "vr", f"A would be {d} x {d}, too costly for {k} components of {n} rows"
