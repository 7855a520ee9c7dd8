"""Measurements: vrpca against its peers, its growth, the readings its solvers need, and the paper's experiments.

Nothing here knows the inside of a solver: solvers are names and options, answers are vectors, and every answer is
judged by its true suboptimality on the data.
"""
