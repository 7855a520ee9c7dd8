"""``vrpca reproduce``: the paper's section 3, its claims as measurements, and what lies beyond it.

Solvers are names and options here, too. They are led step by step, so that every iterate can be judged: by its
suboptimality against an optimum that others have found, in double precision.
"""
