"""Engines behind one protocol: SQLite (default), PostgreSQL and DuckDB. Each is imported by whoever needs it."""
