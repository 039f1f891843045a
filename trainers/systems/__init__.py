"""One file per published system."""
