"""ALFWorld: household tasks in text, on the benchmark's own games or on generated ones."""
