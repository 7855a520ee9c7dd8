"""``vrpca reproduce``: the experiments of the paper's section 3, its claims as measurements, and other methods.

A solver is a name with options here, too. It is led step by step, so that every state can be judged: by its true
suboptimality, in double precision, with an optimum that other software has found.
"""
