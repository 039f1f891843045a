"""How results and databases are judged: our own comparison, and the benchmarks' scorers for reporting."""
