"""Measurements: vrpca against its peers, its growth with the data, and the readings that its solvers need.

Nothing here knows the inside of a solver: solvers are names and options, answers are vectors, and every answer is
judged by its true suboptimality on the data.
"""
