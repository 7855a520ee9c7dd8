"""What the benchmark and the reproduction share: data, the judge of an answer, results, tables and figures."""
