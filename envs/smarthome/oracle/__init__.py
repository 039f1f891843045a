"""The oracle: plans that reach a goal, found by regression and by simulating."""
