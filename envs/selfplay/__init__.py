"""Environments that are programs: written by a designer, checked by gates, kept in a pool, played in a sandbox."""
