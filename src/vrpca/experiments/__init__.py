"""Measurements: the benchmark (`bench`), the paper's experiments (`reproduce`), and what the two share (`shared`).

Nothing here knows the inside of a solver. A solver is a name with options, an answer is a block of vectors. Every
answer is judged by its true suboptimality on the data. Modules are imported only when their command is called.
"""
