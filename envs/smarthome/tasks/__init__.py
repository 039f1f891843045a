"""Generated tasks: eight families, their sub-types, and the task set."""
