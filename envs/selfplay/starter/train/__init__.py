"""Programs that are shipped, as data."""
