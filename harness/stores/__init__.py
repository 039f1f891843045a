"""Where what was recorded is kept: trajectory files and their exports."""
