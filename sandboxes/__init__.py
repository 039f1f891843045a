"""Isolation: the lowest floor. It imports nothing of the floors above it."""
