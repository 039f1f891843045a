"""The simulation behind `SimHome`."""
