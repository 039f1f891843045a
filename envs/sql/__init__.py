"""Interactive SQL: read, write and clarify, on SQLite, PostgreSQL and DuckDB."""
