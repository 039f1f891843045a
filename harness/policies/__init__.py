"""Policies: what answers a call."""
